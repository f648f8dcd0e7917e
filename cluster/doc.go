// Package cluster tells who is alive.
//
// Members find each other by gossip (hashicorp/memberlist, of which nothing
// shows outside) and each keeps its own view: [Cluster.Members] and, for boots
// that will not come back, [Cluster.Gone]. Views converge, and are never the
// same everywhere at once.
//
// # A member comes
//
// [New] listens and asks the members behind Config.Join for the state of the
// cluster, again and again while one of them is missing; names are resolved at
// each try. What it says of itself (addresses, machine, groups, state, and from
// whose loss its sessions have recovered) goes with the gossip about it, in at
// most 512 bytes.
//
// # A member goes
//
//   - It leaves: it tells everybody, and is gone at once.
//   - It fails: it answers no probe of its own nor through others. Its name
//     disappears from Members. That is a guess, which a slow process or a cut
//     link brings about as well, so nothing is proven; its last address is tried
//     for a day, and after a cut of any length both sides find each other again.
//   - It is replaced: another boot of its name, or a member at its address,
//     shows up. Then the older boot is asked for its name at its own address
//     (identity.go). Refused, or answered by another member: it is gone, at once.
//     Answered by itself: the newer boot is one too many and is told so by
//     [Cluster.Duplicate]. Silence proves nothing, and both count (D12).
//
// # What comes from outside
//
// With keys every message is encrypted and authenticated by the first, and any
// is accepted; without keys nothing listens outside loopback (D11). Packets and
// streams that do not begin as ours do are dropped before they are parsed;
// streams are bounded in number, length and time. What is dropped is counted in
// [Stats].
package cluster
