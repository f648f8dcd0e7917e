package stage

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clockTicks is USER_HZ, which is 100 on every Linux that Go runs on.
const clockTicks = 100

// CPU is the processor time that the processes have used so far, user and
// system.
func CPU(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		// The name in parentheses may hold anything; the fields after it do not.
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		for _, s := range f[11:13] { // utime, stime
			n, err := strconv.Atoi(s)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * time.Second / clockTicks
		}
	}
	return sum, nil
}

// Median of v, which it sorts; zero without any.
func Median[T float64 | int](v []T) T { //nolint:ireturn // T is a number
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// Resident is the memory of the processes, in bytes.
func Resident(pids []int) (int, error) {
	sum := 0
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, after, _ := strings.Cut(string(b), "VmRSS:")
		var kib int
		if _, err := fmt.Sscan(after, &kib); err != nil {
			return 0, err
		}
		sum += kib << 10
	}
	return sum, nil
}
