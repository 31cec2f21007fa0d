"""Language modelling on packed sentences."""
