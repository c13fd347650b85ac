"""From files and data frames to rows."""
