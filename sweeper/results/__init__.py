"""Results of finished runs: tables, verdicts on the paper's claims, figures."""
