package worker

import (
	"maps"
	"slices"
)

// distance reports whether at most limit characters must be inserted, removed or
// replaced to make b of a.
func distance(a, b string, limit int) bool {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return false
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			cost = min(diagonal+cost, row[j]+1, row[j+1]+1)
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)] <= limit
}

// nearest returns the directive that name is probably meant to be, or "".
func nearest(name string) string {
	// One wrong character in three, two in six.
	for limit := 1; limit <= 2 && limit*3 <= len(name); limit++ {
		for _, d := range slices.Sorted(maps.Keys(directives())) {
			if directives()[d].old == "" && distance(name, d, limit) {
				return d
			}
		}
	}
	return ""
}
