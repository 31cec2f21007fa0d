"""From records to what a reader takes away: tables, verdicts on the paper's claims, figures."""
