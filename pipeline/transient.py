"""Which errors of a storage are worth another try. Pure, and without importing any client: errors
are told by what botocore, s3fs, aiohttp, requests, gcsfs, azure and pyarrow name them.
"""

import errno
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.secrets import scrub

STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
EXPIRED_CODES = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}
)
CODES = EXPIRED_CODES | {
    *("SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "IncompleteBody"),
    *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
    *("RequestLimitExceeded", "BandwidthLimitExceeded", "TooManyRequests"),
    *("BadDigest", "XAmzContentSHA256Mismatch", "OperationAborted", "ConditionalRequestConflict"),
    *("ServerBusy", "OperationTimedOut", "AuthenticationExpired"),  # Azure
}
HEAD_400 = "400"  # all that a HEAD request, which has no body, is told of an expired token
CODES_OF_ARROW = (
    *("SLOW_DOWN", "NETWORK_CONNECTION", "INTERNAL_FAILURE", "SERVICE_UNAVAILABLE"),
    *("REQUEST_TIMEOUT", "REQUEST_EXPIRED", "THROTTLING", "UNKNOWN (HTTP status 5"),
)
NUMBERS = frozenset(
    getattr(errno, name)
    for name in (
        *("EBUSY", "ETIMEDOUT", "ECONNRESET", "ECONNREFUSED", "ECONNABORTED", "EPIPE"),
        *("ENETUNREACH", "ENETDOWN", "ENETRESET", "EHOSTUNREACH", "EHOSTDOWN", "EREMOTEIO"),
    )
    if hasattr(errno, name)
)
# Classes by name, where neither a code nor a status says it.
NAMES = frozenset(
    {
        *("HTTPClientError", "IncompleteReadError", "ResponseStreamingError"),  # botocore
        *("ResponseParserError", "MetadataRetrievalError", "CredentialRetrievalError"),
        *("ClientConnectionError", "ClientPayloadError"),  # aiohttp
        *("ConnectionError", "Timeout", "ChunkedEncodingError", "ContentDecodingError"),  # requests
        *("ProtocolError", "ReadTimeoutError", "HTTPException"),  # urllib3, http.client
        *("ServiceRequestError", "ServiceResponseError", "TransportError"),  # azure, google.auth
    }
)
CERTIFICATE_NAMES = frozenset(
    {"SSLError", "SSLCertVerificationError", "ClientConnectorCertificateError"}
)


class StorageUnavailableError(OSError):
    """The storage did not answer, or asked to come back later, for as long as was allowed."""


class ShortReadError(OSError):
    """The storage handed over fewer bytes than it had announced."""


def is_transient(error: BaseException) -> bool:
    """May the same call succeed later? The cause decides: clients rename what they met."""
    for one in reversed(list(_chain(error))):
        verdict = _verdict(one)
        if verdict is not None:
            return verdict
    return False


def has_expired(error: BaseException) -> bool:
    """Would another try need new credentials?"""
    codes = {_code(one) for one in _chain(error)}
    statuses = {_status(one) for one in _chain(error)}
    return bool(codes & (EXPIRED_CODES | {HEAD_400, "AuthenticationExpired"})) or 401 in statuses


def plain(error: Exception, secrets: frozenset[str] = frozenset()) -> Exception:
    """The same as an OSError that pickles, in one line and without secrets: of whatever a client
    raises only what it means is kept. Errors of Python itself (a wrong argument) stay.
    """
    cause = error
    if isinstance(error, FileNotFoundError) and not is_missing(error):
        cause = error.__cause__ or error
    text = " ".join(str(cause).split())
    is_own = type(cause).__module__ == "builtins"
    message = scrub(text if is_own and text else f"{type(cause).__name__}: {text}", secrets)
    if is_transient(error):
        return StorageUnavailableError(message)
    if cause is error:
        for kind in (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError):
            if isinstance(error, kind):
                return kind(message)
        for kind in (ValueError, TypeError):
            if is_own and isinstance(error, kind):
                return kind(message)
    if isinstance(cause, PermissionError) or _status(cause) in (401, 403):
        return PermissionError(message)
    return OSError(message)


def is_missing(error: FileNotFoundError) -> bool:
    """Is the file really not there? fsspec's web client says so of every failure, a refused
    connection included, and keeps the failure as the cause.
    """
    cause = error.__cause__
    if not isinstance(cause, TimeoutError) and not type(cause).__module__.startswith("aiohttp"):
        return True
    return getattr(cause, "status", None) in (404, 410)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its cause, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _verdict(error: BaseException) -> bool | None:
    """None where this error alone does not tell."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if names & CERTIFICATE_NAMES:
        return False
    code, status = _code(error), _status(error)
    if code is not None or status is not None:
        return code in CODES or code == HEAD_400 or status in STATUSES
    if isinstance(error, FileNotFoundError | FileExistsError | PermissionError):
        return False
    if "AWS Error " in str(error):
        return any(f"AWS Error {known}" in str(error) for known in CODES_OF_ARROW)
    passes = (StorageUnavailableError, ShortReadError, TimeoutError, ConnectionError)
    known = isinstance(error, passes) or getattr(error, "errno", None) in NUMBERS
    return True if known or names & NAMES else None


def _code(error: BaseException) -> str | None:
    """The code that an object store gives an error, such as SlowDown."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, Mapping):
        code: Any = response.get("Error", {}).get("Code")
        return None if code is None else str(code)
    code = getattr(error, "error_code", None)  # azure: an enumeration of texts
    return None if code is None else str(getattr(code, "value", code))


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error stands for."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, Mapping):
        found: Any = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if found is None and (code := _code(error)) and code.isdigit():
            found = code
    else:  # aiohttp, azure, requests; gcsfs
        found = getattr(error, "status", None) or getattr(error, "status_code", None)
        found = found or getattr(response, "status_code", None)
        if found is None and type(error).__name__ == "HttpError":  # `code` is much else elsewhere
            found = getattr(error, "code", None)
    return int(found) if found is not None and str(found).isdigit() else None
