"""What makes a run durable. The only importer of DBOS."""
