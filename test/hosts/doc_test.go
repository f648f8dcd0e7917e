// Package hosts runs the commands on hosts of their own, network namespaces
// on two switches, and breaks the cables between them. It imports nothing of
// ours: what it asserts, a user could see.
//
//	bed_test.go      hosts, cables, and what can be done to them
//	slow_test.go     cables on which frames take time
//	cluster_test.go  nodes and proxies on these hosts
//	the others       the cases, named at each test
//
// It needs Linux, root, and the commands ip and nft. Without them its tests
// are skipped, or fail if UNDERSTUDY_TEST_ALL is 1. No frame leaves the
// namespaces that a test has made, and nothing of them is left when it ends.
package hosts
