"""The interchangeable wordings of each filler slot, and which attributes of a scene choose among
them.

Two attributes make a collocation that a small draft learns badly, one makes one that it learns.
Rules for an entry: no wording holds a fact word, and the wordings of a slot that stands before a
fact (plain, neat, painted, judged, heading, rather, finally, fully, off) end in words that stand
before no other kind of fact. Changing anything here changes the tokenizer and asks for new
training.
"""

from __future__ import annotations

# Slot -> (attributes, wordings separated by bars).
_SLOTS: dict[str, tuple[str, str]] = {
    "this": ("color", "The|This|Our|That"),
    "medium": (
        "color background",
        "video|clip|footage|recording|scene|sequence|shot|film|animation|reel|take|excerpt",
    ),
    "shows": (
        "shape",
        "shows|features|presents|depicts|displays|contains|portrays|offers|captures|holds|"
        "reveals|includes",
    ),
    "just": ("background", "just|exactly|precisely|only|merely|no more than|a total of"),
    "noun": ("shape color", "figure|shape|object|item|form|element|piece|thing|symbol"),
    "over": (
        "background",
        "over|on|against|atop|above|upon|in front of|set against|placed on|shown over",
    ),
    "plain": (
        "shape background",
        "plain|solid|uniform|flat|even|smooth|matte|bare|blank|simple|pure|clean",
    ),
    "backdrop": (
        "background",
        "background|backdrop|canvas|field|surface|setting|ground|screen|plane|sheet",
    ),
    "is": ("direction", "is|appears as|looks like|amounts to|takes the form of|resembles"),
    "neat": (
        "direction background",
        "neat|crisp|tidy|sharp|bold|clear|distinct|regular|proper|perfect|well drawn|precise",
    ),
    "face": (
        "shape",
        "its surface|its body|its face|its inside|its whole area|all of it|the entire thing|"
        "its fill|its skin",
    ),
    "painted": (
        "color shape",
        "painted|tinted|coloured|shaded|dyed|filled|rendered|washed|toned|printed|brushed|inked",
    ),
    "scale": (
        "color",
        "in size|in scale|by size|in extent|for its size|in terms of size|by area|in stature",
    ),
    "judged": (
        "shape size",
        "judged|rated|deemed|considered|reckoned|found|thought|classed|called|ranked",
    ),
    "and": ("shape", "and|while|plus|whereas|and also"),
    "seen": (
        "color direction",
        "seen|observed|noticed|caught|watched|spotted|filmed|pictured|recorded|captured",
    ),
    "heading": (
        "shape direction",
        "heading|moving|travelling|drifting|sliding|gliding|floating|going|rolling|wandering|"
        "cruising",
    ),
    "rather": (
        "direction color",
        "rather|fairly|quite|somewhat|pretty|notably|visibly|relatively|decidedly|generally",
    ),
    "at": ("direction", "at a|with a|keeping a|holding a|in a|showing a"),
    "pace": ("speed direction", "pace|rate|tempo|motion|stride|rhythm|manner|fashion|way"),
    "resting": (
        "color",
        "resting in place|staying at the spot|keeping its position|fixed where it is|"
        "parked at its spot",
    ),
    "time": (
        "color",
        "Over time|As time passes|During the clip|Along the way|As it plays|In due course|"
        "With time|Before long|At some point|As seconds pass",
    ),
    "finally": (
        "shape event",
        "eventually|suddenly|simply|finally|plainly|clearly|soon|duly|then|evidently|"
        "apparently|indeed",
    ),
    "fully": (
        "color event",
        "fully|wholly|entirely|completely|outright|all over|throughout|totally",
    ),
    "off": ("color event", "off|away|around|sharply|abruptly|firmly|smartly|straight"),
    "sight": (
        "shape background",
        "in plain sight|before our eyes|for all to see|in full view|on screen|as we watch|"
        "within the frame|without any cut|in a single go",
    ),
    "it": ("event", "it|the shape|the figure|the object|the subject"),
    "first": ("event", "the first|the leftmost|the former|the initial"),
    "First": ("background", "The first|The leftmost|The former|The initial"),
    "It": ("background", "It|This|What we see|The thing on view|The subject|Its outline"),
    "other": ("color", "The other|The second|Its companion|The latter|Its partner|Its neighbour"),
    "camera": ("background color", "camera|viewpoint|framing|lens|perspective|view|angle|picture"),
    "stays": ("shape color", "stays|remains|is kept|is held|sits|feels|looks|proves"),
    "steady": (
        "background shape",
        "steady|static|fixed|stable|constant|calm|level|locked|unmoved|firm",
    ),
    "throughout": (
        "color",
        "throughout|all along|the whole time|from start to end|until the end|"
        "for the duration|at every moment",
    ),
    "text": (
        "shape background",
        "text|writing|lettering|caption|logo|watermark|label|title|subtitle",
    ),
    "visible": ("color shape", "visible|shown|present|included|added|provided|printed|used"),
    "anywhere": ("color", "anywhere|at any point|at all|in any corner|at any time|on top"),
    "quiet": (
        "color shape",
        "quiet|minimal|modest|spare|orderly|tranquil|restrained|peaceful|sober",
    ),
    "readable": (
        "shape background",
        "easy to follow|uncluttered|readable|free of clutter|well lit|carefully made|elegant",
    ),
}
WORDINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    slot: (tuple(attributes.split()), tuple(wordings.split("|")))
    for slot, (attributes, wordings) in _SLOTS.items()
}

# Choices of the order of clauses and sentences, and of the closing: attributes, number of choices.
ORDERS: dict[str, tuple[tuple[str, ...], int]] = {
    "clauses": (("color",), 2),
    "sentences": (("shape",), 2),
    "closing": (("background", "color"), 3),
}
