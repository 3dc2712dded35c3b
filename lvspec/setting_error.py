"""What a bad setting raises, and the checks that raise it."""


class SettingError(ValueError):
    """A setting outside what is allowed. `key` is relative to the settings class.

    >>> import lvspec
    >>> lvspec.DecodeSettings(keep=2)
    Traceback (most recent call last):
        ...
    lvspec.setting_error.SettingError: keep = 2: allowed is above 0, up to 1
    """

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key} = {value!r}: allowed is {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[type["SettingError"], tuple[str, object, str]]:
        return type(self), (self.key, self.value, self.allowed)


def require(ok: bool, key: str, value: object, allowed: str) -> None:
    if not ok:
        raise SettingError(key, value, allowed)


def one_of(key: str, value: object, allowed: tuple[str, ...]) -> None:
    require(value in allowed, key, value, "one of " + ", ".join(allowed))
