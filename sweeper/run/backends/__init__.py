"""Where runs execute. A backend starts frozen records and says when their processes end."""
