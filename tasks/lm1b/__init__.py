"""Language modelling on sentences that are packed into rows."""
