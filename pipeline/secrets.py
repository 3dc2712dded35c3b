"""Keeping secrets out of everything that is printed or written. Pure.

Three ways lead out, and each is closed by one function here: the settings that are saved (`shown`),
texts of errors and messages (`scrub`), and addresses that carry a signature (`unsigned`).
"""

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

HIDDEN = "***"
# Texts in storage options that are shown; what is not known to be harmless is not.
SHOWN_OPTIONS = frozenset(
    {
        *("endpoint_url", "endpoint", "region_name", "region", "profile", "use_ssl", "protocol"),
        *("project", "account_name", "bucket", "default_location", "consistency", "verify"),
        *("signature_version", "addressing_style", "mode", "cache_type", "default_cache_type"),
    }
)
SECRET_WORDS = ("secret", "token", "pass", "key", "credential", "auth", "signature")
LEAST = 4  # a value this short would blot out harmless text

# Parameters that sign an address: for each signer, what names it and what comes and goes with it.
_OTHERS = r"(?:access_?|auth_?|sas_?)?token|api_?key|key|password|passwd|pwd|secret|auth|credential"
_FAMILIES = (
    (r"x-(?:amz|goog)-signature", r"x-(?:amz|goog)-[\w-]+"),
    (r"signature", r"signature|expires|policy|key-pair-id|awsaccesskeyid|googleaccessid"),
    (r"sig", r"sig|sv|se|st|sp|sr|spr|sip|ss|srt|skoid|sktid|skt|ske|sks|skv|sdd"),  # Azure
    (_OTHERS, _OTHERS),
)
_SECRET = (
    r"x-(?:amz|goog)-(?:signature|credential|security-token)|signature|sig|policy|key-pair-id|"
    rf"awsaccesskeyid|googleaccessid|{_OTHERS}"
)
_USER = re.compile(r"(?<=://)[^\s/@'\"]*:[^\s/@'\"]*@")
_PARAMETER = re.compile(rf"(?<=[?&;])({_SECRET})=[^\s&'\"<>)\]}}]*", re.IGNORECASE)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{8,}", re.IGNORECASE)


def scrub(text: str, secrets: frozenset[str] = frozenset()) -> str:
    """`text` without passwords and signatures in addresses, and without any of `secrets`."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = _USER.sub(f"{HIDDEN}@", text)
    text = _PARAMETER.sub(rf"\1={HIDDEN}", text)
    return _BEARER.sub(rf"\1 {HIDDEN}", text)


def has_password(uri: str) -> bool:
    """Does an address hold `user:password@`?"""
    return _USER.search(uri) is not None


def unsigned(uri: str) -> tuple[str, str | None]:
    """A web address without the parameters that sign it, and the whole of its query where there
    are any: what a row says and an id is made of, and what is needed to read.
    """
    address, mark, query = uri.partition("?")
    web = address.lower().rpartition("::")[2]  # also of a tar archive that a member is in
    if not mark or not web.startswith(("http://", "https://")):
        return uri, None
    parameters = query.split("&")
    names = [unquote(parameter.partition("=")[0]).lower() for parameter in parameters]
    going = "|".join(
        family for sign, family in _FAMILIES if any(re.fullmatch(sign, name) for name in names)
    )
    if not going:
        return uri, None
    pairs = zip(names, parameters, strict=True)
    kept = [parameter for name, parameter in pairs if not re.fullmatch(going, name)]
    return address + ("?" + "&".join(kept) if kept else ""), query


def signed(uri: str, query: str | None) -> str:
    """What `unsigned` took apart."""
    return uri if query is None else f"{uri.partition('?')[0]}?{query}"


def secrets_of(options: Mapping[str, Any]) -> frozenset[str]:
    """The texts in storage options that are not shown, to be kept out of messages."""
    found: set[str] = set()
    for name, value in options.items():
        found |= _hidden(value, name)
    return frozenset(text for text in found if len(text) >= LEAST)


def _hidden(value: Any, name: str) -> set[str]:
    if isinstance(value, Mapping):
        options = cast(Mapping[Any, Any], value)
        return {text for key, child in options.items() for text in _hidden(child, str(key))}
    if isinstance(value, list | tuple):
        return {text for child in cast(list[Any], value) for text in _hidden(child, name)}
    return set() if shown(value, name) == value else {str(value)}


def shown(value: Any, name: str = "") -> Any:
    """Storage options as they may be seen: switches and numbers, and texts known to be harmless."""
    if isinstance(value, Mapping):
        options = cast(Mapping[Any, Any], value)
        return {key: shown(child, str(key)) for key, child in options.items()}
    if isinstance(value, list | tuple):
        return [shown(child, name) for child in cast(list[Any], value)]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return HIDDEN if is_secret_name(name) else value
    return scrub(str(value)) if name.lower() in SHOWN_OPTIONS else HIDDEN


def is_secret_name(name: str) -> bool:
    return any(word in name.lower() for word in SECRET_WORDS)
