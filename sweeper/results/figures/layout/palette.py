"""The colours that tell arms apart, on paper and on the page; plain data, no drawing library."""

# Okabe and Ito: eight colours that people with any colour vision tell apart (yellow left out, which
# white swallows).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
