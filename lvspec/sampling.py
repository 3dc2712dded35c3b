"""The target's choice at each slot: the likeliest token, or one drawn from its distribution.

Drawing is a maximum too: of the log-probabilities plus Gumbel noise, which is a fixed function of
the request's seed, the token's place in the caption and its id. So draft and target draw with the
*same* noise, and "the drafted token is the target's own choice" is all that verification has to
ask, sampled or greedy: the caption is, token for token, the one that plain sampling with this seed
gives, and follows the target's distribution exactly. Rejection sampling keeps the distribution
too, but gives other captions with every draft and every draft length. (Gumbel coupling for
speculative decoding: Daliri, Musco, Suresh, arXiv 2408.07978.)

What policies keep of the target's distribution p (after temperature, top-k and top-p):
- `exact` keeps it: the caption is that of plain sampling with this seed.
- `gate` and `entropy` decide each slot from its own logits and tokens. So, given the caption so
  far, the target's draw follows p, and the emitted token differs from it just where a drafted token
  is loosely kept: the distance from p in total variation is at most the chance of that.
- `lvspec` and `fly` look at the whole block. Every token but the loosely kept ones is the target's
  draw with this seed and place, given the caption so far; but as later draws had a say in what was
  kept before them, they follow p only nearly, and no distance is promised.
- All keep the end: an end token is emitted where, and only where, the target draws one.
Loosely kept tokens need not be among those that top-k and top-p leave of the target's.
"""

import torch
from torch import Tensor

from lvspec.config import Sampling

GREEDY = Sampling()

_INT64 = -(2**63)
_MIX = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)  # SplitMix64's multipliers, as signed integers
_STRIDES = (-0x61C8864680B583EB, 0x2545F4914F6CDD1D, 0x5851F42D4C957F2D)  # odd: seed, place, token


def gumbel(seeds: Tensor, places: Tensor, vocabulary: int) -> Tensor:
    """Standard Gumbel noise, float64 [B, q, V]: a hash of seed int64 [B], place int64 [B, q] and
    token id.
    """
    tokens = torch.arange(vocabulary, device=seeds.device)
    mixed = _mix(_mix(seeds[:, None] * _STRIDES[0]) + places * _STRIDES[1])[..., None]
    bits = _shift(_mix(mixed + tokens * _STRIDES[2]), 11)  # 53 bits, [B, q, V]
    uniform = (bits.double() + 0.5) * 2.0**-53  # inside (0, 1)
    return -(-uniform.log()).log()


def _mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64; multiplication of int64 wraps, as it must."""
    x = (x ^ _shift(x, 30)) * _MIX[0]
    x = (x ^ _shift(x, 27)) * _MIX[1]
    return x ^ _shift(x, 31)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Right shift that fills with zeros: torch's repeats the sign."""
    return (x >> bits) & ~(_INT64 >> (bits - 1))


def warp(logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Logits [B, q, V] of the distribution to draw from: divided by the temperature [B], then cut
    to the likeliest `top_k` [B] tokens, then to the smallest set that holds `top_p` [B]; as in
    transformers.
    """
    scaled = logits.float() / temperature[:, None, None]
    ordered, order = scaled.sort(dim=-1, descending=True)
    rank = torch.arange(ordered.shape[-1], device=logits.device)
    ordered = ordered.masked_fill(rank >= top_k[:, None, None], -torch.inf)
    share = ordered.softmax(-1)
    before = share.cumsum(-1) - share  # probability of all that is likelier
    ordered = ordered.masked_fill((before >= top_p[:, None, None]) & (rank > 0), -torch.inf)
    return torch.empty_like(scaled).scatter_(-1, order, ordered)


class Sampler:
    """The sampling settings of every slot, in the order of the slots."""

    def __init__(self, slots: int, device: torch.device) -> None:
        self._settings = [GREEDY] * slots
        self._temperature = torch.zeros(slots, device=device)
        self._top_k = torch.zeros(slots, dtype=torch.int64, device=device)
        self._top_p = torch.zeros(slots, device=device)
        self._seeds = torch.zeros(slots, dtype=torch.int64, device=device)

    def admit(self, slot: int, settings: Sampling) -> None:
        """A request enters a slot."""
        self._settings[slot] = settings
        self._temperature[slot] = settings.temperature
        self._top_k[slot] = settings.top_k or 2**62
        self._top_p[slot] = settings.top_p
        self._seeds[slot] = settings.seed

    def move(self, source: int, target: int) -> None:
        """Slot `source` becomes slot `target`."""
        self._settings[target] = self._settings[source]
        for values in (self._temperature, self._top_k, self._top_p, self._seeds):
            values[target] = values[source]

    def choose(self, logits: Tensor, place: Tensor, first: int = 0) -> Tensor:
        """The choice int64 [B, q] at logits [B, q, V], for the slots from `first` on.

        place: int64 [B, 1], which token of its caption the first is; the others follow it.
        """
        rows = slice(first, first + logits.shape[0])
        likeliest = logits.argmax(-1)
        if not any(s.temperature for s in self._settings[rows]):
            return likeliest
        heat = self._temperature[rows]
        warped = warp(logits, heat.where(heat > 0, 1.0), self._top_k[rows], self._top_p[rows])
        places = place + torch.arange(logits.shape[1], device=place.device)
        noise = gumbel(self._seeds[rows], places, logits.shape[-1])
        return torch.where(heat[:, None] > 0, (warped + noise).argmax(-1), likeliest)
