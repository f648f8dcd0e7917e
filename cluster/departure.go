package cluster

import "errors"

// A departure says that a boot is gone for good. Who leaves tells everybody, and
// members tell each other what they know whenever they exchange their states, so
// that one that was away learns it too. On the wire it is
//
//	version  1 byte, departureVersion
//	then for each: reason 1 byte, length of id 1 byte, id
type departure struct {
	id  string
	why reason
}

const (
	departureVersion = 1
	maxTold          = 256      // departures that are told at a time
	maxDepartures    = 64 << 10 // bytes that are read
)

var errDepartures = errors.New("malformed departures")

func encodeDepartures(ds []departure) []byte {
	b := []byte{departureVersion}
	for _, d := range ds {
		b = append(append(b, byte(d.why), byte(len(d.id))), d.id...)
	}
	return b
}

// decodeDepartures is the inverse of encodeDepartures. Nothing of b is trusted
// or retained.
func decodeDepartures(b []byte) ([]departure, error) {
	if len(b) == 0 || len(b) > maxDepartures || b[0] != departureVersion {
		return nil, errDepartures
	}
	var ds []departure
	for b = b[1:]; len(b) > 0; {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return nil, errDepartures
		}
		why, end := reason(b[0]), 2+int(b[1])
		id := string(b[2:end])
		if why != left && why != replaced {
			return nil, errDepartures
		}
		if _, _, err := parseID(id); err != nil {
			return nil, errDepartures
		}
		ds = append(ds, departure{id, why})
		b = b[end:]
	}
	return ds, nil
}
