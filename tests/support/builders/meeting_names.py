"""Names of routes that are in one shard, whatever the number of shards."""

MEETING = [
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "baaaaabaabbaaaaabaaabbbabbabbabbbaaa",
    "bbaaaabbababaaaabbaabaabbabbabbaabaa",
    "abaaaaabaabbaaaaabaaabbbabbabbabbbaa",
    "abbaaaabbababaaaabbaabaabbabbabbaaba",
    "bbbaaabbbbaabaaabbbababaaaaaaaaababa",
    "babaaababbbbbaaabababbababbabbababba",
    "aabaaaaabaabbaaaaabaaabbbabbabbabbba",
    "babbaabababbabaababbbbaababbabbaaaab",
    "aabbaaaabbababaaaabbaabaabbabbabbaab",
    "abbbaaabbbbaabaaabbbababaaaaaaaaabab",
    "bbbbaabbbaaaabaabbbbbabbbbabbabbbbab",
]
"""Their checksums are equal in every namespace: a tenant computes such names in no time."""
