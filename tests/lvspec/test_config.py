"""Bad settings fail on construction, with the key, the value and what is allowed."""

import pickle
import subprocess
import sys

import pytest

from lvspec import DecodeSettings, FrameSettings, Gate, Lvspec, ModelSettings, SettingError


@pytest.mark.parametrize(
    "make,key",
    [
        (lambda: DecodeSettings(draft_length=0), "draft_length"),
        (lambda: DecodeSettings(keep=0), "keep"),
        (lambda: DecodeSettings(pruning="half"), "pruning"),
        (lambda: DecodeSettings(policy="lvspec"), "policy"),
        (lambda: DecodeSettings(slots=0), "slots"),
        (lambda: DecodeSettings(prompt="  "), "prompt"),
        (lambda: Lvspec(loose_share=1.1), "loose_share"),
        (lambda: Lvspec(relevance_top=0), "relevance_top"),
        (lambda: Lvspec(scope="sentence"), "scope"),
        (lambda: Lvspec(running_window=0), "running_window"),
        (lambda: Lvspec(relevance_source="pixels"), "relevance_source"),
        (lambda: Lvspec(relevance_slot="next"), "relevance_slot"),
        (lambda: Lvspec(relevance_layer=-1), "relevance_layer"),
        (lambda: Lvspec(strict_probability=0.0), "strict_probability"),
        (lambda: Gate(min_probability=0), "min_probability"),
        (lambda: FrameSettings(count=0), "count"),
        (lambda: FrameSettings(min_pixels=10, max_pixels=5), "min_pixels"),
        (lambda: ModelSettings(dtype="int8"), "dtype"),
    ],
)
def test_bad_values_name_key_value_and_what_is_allowed(make, key):
    with pytest.raises(SettingError) as caught:
        make()
    assert caught.value.key == key
    assert key in str(caught.value) and "allowed is" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_importing_the_package_is_light():
    code = "import sys, lvspec, lvspec.video; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
