"""Which failures mean that the database, not the request, is in the way."""

import psycopg
from psycopg import errors
from sqlalchemy import exc

# Besides every OperationalError: a standby after a failover, revoked rights, no schema yet.
_REFUSALS = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.ReadOnlySqlTransaction,
    errors.IdleInTransactionSessionTimeout,
    errors.InsufficientPrivilege,
    errors.InvalidSchemaName,
    errors.UndefinedTable,
)


def is_unavailable(error: BaseException) -> bool:
    """True where the same request may succeed later, without any change to it."""
    if isinstance(error, exc.DBAPIError):
        return error.connection_invalidated or isinstance(error.orig, _REFUSALS)
    return isinstance(error, (*_REFUSALS, exc.TimeoutError, TimeoutError, ConnectionError))
