package stage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pageTimeout bounds one page or number: it is asked again by [Wait].
const pageTimeout = 5 * time.Second

// Page gets one page over a connection of its own. If dial is nil, it connects
// from where the test is. The error is a [*StatusError] for statuses from 400
// on.
func Page(ctx context.Context, url string, dial Dial) (string, error) {
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	c := http.Client{Timeout: pageTimeout, Transport: transport}
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return "", &StatusError{Request: "GET " + url, Code: res.StatusCode, Body: fmt.Sprintf("%.200s", body)}
	}
	return string(body), nil
}

// Metric reads one series of the metrics page at url: its name, with its
// labels as the page writes them.
func Metric(ctx context.Context, url, series string, dial Dial) (float64, error) {
	page, err := Page(ctx, url, dial)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("stage: %s: no series %q", url, series)
}
