"""Results of finished runs: tables, verdicts on claims, figures and the report page."""
