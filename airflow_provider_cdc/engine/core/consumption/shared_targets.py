"""Which consumptions must not run at once, because they write to the same table."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def chains(targets: Sequence[Collection[str]]) -> list[list[int]]:
    """The consumptions in chains: those of one chain run one after the other.

    Two consumptions that share a target are in one chain, also if only a third one connects them.
    Of two consumptions at once, a failed one could not be undone: the other one has written to the
    target after it.

    :param targets: the targets of each consumption, in the order in which they are to run
    :returns: the places of the consumptions; each chain keeps their order, and the longest chain
        comes first
    """
    chain_of: dict[int, list[int]] = {}
    holder: dict[str, int] = {}
    for place, names in enumerate(targets):
        chain = chain_of[place] = [place]
        for other in {holder[name] for name in names if name in holder}:
            joined = chain_of[other]
            if joined is not chain:
                joined.extend(chain)
                chain_of.update(dict.fromkeys(chain, joined))
                chain = joined
        holder.update(dict.fromkeys(names, place))
    found = {id(chain): sorted(chain) for chain in chain_of.values()}
    return sorted(found.values(), key=lambda chain: (-len(chain), chain))
