"""What a rate means in devices, hours and money."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Per device (a GPU; an actor where actors have none), and per 1,000 clips."""

    devices: float
    clips_per_s_per_device: float
    tokens_per_s_per_device: float
    device_hours_per_1000: float
    price_per_1000: float


def cost(
    clips_per_s: float, tokens_per_s: float, actors: int, num_gpus: float, price_per_hour: float
) -> Cost:
    """price_per_hour: of one device. Decode workers and the driver are not in it."""
    devices = actors * (num_gpus or 1.0)
    hours = devices * 1000 / clips_per_s / 3600
    return Cost(
        devices, clips_per_s / devices, tokens_per_s / devices, hours, hours * price_per_hour
    )
