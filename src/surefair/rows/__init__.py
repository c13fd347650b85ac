"""Rows: one type for some rows, and how arrays and data frames become one."""
