"""Errors as the clients of storages raise them: which pass, which need new credentials."""

import errno
import ssl
from typing import Any

import aiohttp
import botocore.exceptions as boto
import pyarrow as pa
import pytest
import requests
from multidict import CIMultiDict, CIMultiDictProxy
from s3fs.errors import translate_boto_error
from yarl import URL

from pipeline.transient import (
    ShortReadError,
    StorageUnavailableError,
    has_expired,
    is_transient,
    plain,
)

URL_ = "http://h/v.mp4"


def client_error(code: str, status: int) -> boto.ClientError:
    said = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return boto.ClientError(said, "GetObject")  # pyright: ignore


def web(status: int) -> aiohttp.ClientResponseError:
    headers: Any = CIMultiDictProxy(CIMultiDict())
    info = aiohttp.RequestInfo(URL(URL_), "GET", headers, URL(URL_))
    return aiohttp.ClientResponseError(info, (), status=status)


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def answered(status: int) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError(response=response)


class AzureError(Exception):
    """As azure.core's HttpResponseError."""

    def __init__(self, status: int, code: str) -> None:
        self.status_code, self.error_code = status, code


class HttpError(Exception):
    """As gcsfs's."""

    def __init__(self, code: int) -> None:
        self.code = code


PASSING = [
    *(client_error(code, status) for code, status in [
        ("SlowDown", 503), ("InternalError", 500), ("RequestTimeout", 400), ("503", 503),
        ("ExpiredToken", 400), ("400", 400), ("OperationAborted", 409), ("Throttling", 400),
    ]),
    translate_boto_error(client_error("SlowDown", 503)),
    translate_boto_error(client_error("ExpiredToken", 400)),
    boto.EndpointConnectionError(endpoint_url=URL_, error="refused"),
    boto.ReadTimeoutError(endpoint_url=URL_),
    boto.ConnectionClosedError(endpoint_url=URL_),
    boto.IncompleteReadError(actual_bytes=1, expected_bytes=2),
    boto.ResponseParserError("<html>") if hasattr(boto, "ResponseParserError") else TimeoutError(),
    aiohttp.ServerDisconnectedError(),
    caused(
        aiohttp.ClientPayloadError("not completed"),
        aiohttp.http_exceptions.ContentLengthError("received 1 of 2 bytes"),
    ),
    aiohttp.ServerTimeoutError(),
    web(503), web(429),
    caused(FileNotFoundError(URL_), web(503)),  # fsspec of any failure
    caused(FileNotFoundError(URL_), aiohttp.ServerDisconnectedError()),
    requests.ConnectionError(), requests.ReadTimeout(), answered(502),
    AzureError(503, "ServerBusy"), HttpError(503),
    TimeoutError(), ConnectionResetError(), ShortReadError(), StorageUnavailableError(),
    OSError(errno.EBUSY, "Please reduce your request rate"),
    OSError("When reading: AWS Error SLOW_DOWN during GetObject operation"),
    OSError("When reading: AWS Error UNKNOWN (HTTP status 503) during GetObject operation"),
]  # fmt: skip
LASTING = [
    *(client_error(code, status) for code, status in [
        ("NoSuchKey", 404), ("NoSuchBucket", 404), ("AccessDenied", 403), ("403", 403),
        ("InvalidAccessKeyId", 403), ("SignatureDoesNotMatch", 403), ("PreconditionFailed", 412),
        ("NotImplemented", 501), ("InvalidRange", 416),
    ]),
    translate_boto_error(client_error("AccessDenied", 403)),
    boto.NoCredentialsError(),
    boto.SSLError(endpoint_url=URL_, error="certificate verify failed"),
    caused(boto.HTTPClientError(error="x"), ssl.SSLCertVerificationError("self-signed")),
    web(404), web(403), caused(FileNotFoundError(URL_), web(404)),
    answered(404), AzureError(403, "AuthorizationFailure"), HttpError(404),
    FileNotFoundError(), PermissionError(), OSError(errno.ENOSPC, "full"), OSError("odd"),
    OSError("When reading: AWS Error ACCESS_DENIED during GetObject operation"),
    ValueError("bad path"), pa.ArrowInvalid("no Parquet"), KeyError("x"),
]  # fmt: skip


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_passes_is_worth_another_try(error: Exception) -> None:
    assert is_transient(error)
    assert isinstance(plain(error), StorageUnavailableError)


@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_what_lasts_is_not(error: Exception) -> None:
    assert not is_transient(error)
    assert not isinstance(plain(error), StorageUnavailableError)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (translate_boto_error(client_error("ExpiredToken", 400)), True),
        (client_error("400", 400), True),  # a HEAD request
        (web(401), True),
        (client_error("SlowDown", 503), False),
    ],
)
def test_expired_credentials_are_told(error: Exception, expected: bool) -> None:
    assert has_expired(error) is expected


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (translate_boto_error(client_error("NoSuchKey", 404)), FileNotFoundError),
        (caused(FileNotFoundError(URL_), web(403)), PermissionError),
        (client_error("AccessDenied", 403), OSError),
        (boto.NoCredentialsError(), OSError),
        (FileExistsError("x"), FileExistsError),
        (ValueError("x"), ValueError),
        (pa.ArrowInvalid("x"), OSError),
    ],
)
def test_what_comes_out_is_of_python_itself(error: Exception, kind: type[Exception]) -> None:
    found = plain(error)
    assert isinstance(found, kind)
    assert type(found).__module__ in ("builtins", "pipeline.transient")
