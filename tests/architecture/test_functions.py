"""Functions of the database change with a revision, or no database would hear of it."""

import hashlib

from app.store import migrate


def test_the_newest_revision_is_that_of_the_functions() -> None:
    """A database is given them when its revision changes. Whoever changes one after a release adds
    a revision, and names there what the functions have become."""
    newest = migrate.scripts().get_revision(migrate.head())
    assert newest is not None
    digest = hashlib.sha256()
    for file in sorted((migrate.MIGRATIONS / "functions").glob("*.sql")):
        digest.update(file.name.encode() + file.read_bytes())
    assert digest.hexdigest() == newest.module.FUNCTIONS
