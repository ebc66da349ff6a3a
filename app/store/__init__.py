"""All SQL. Functions take a connection; none opens or commits one."""
