package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/understudy-lb/understudy/proxy"
)

// readErrorPages reads the files of --error-page: FILE, or STATUS=FILE.
func readErrorPages(flags []string) (map[int]proxy.ErrorPage, error) {
	pages := map[int]proxy.ErrorPage{}
	for _, flag := range flags {
		status, path := 0, flag
		if before, after, ok := strings.Cut(flag, "="); ok {
			if n, err := strconv.Atoi(before); err == nil {
				status, path = n, after
				if n < 400 || n > 599 {
					return nil, fmt.Errorf("--error-page %s: %d is no status from 400 to 599", flag, n)
				}
			}
		}
		if _, twice := pages[status]; twice {
			return nil, fmt.Errorf("--error-page %s: that status has a page already", flag)
		}
		page, err := readErrorPage(path)
		if err != nil {
			return nil, fmt.Errorf("--error-page: %w", err)
		}
		pages[status] = page
	}
	return pages, nil
}

func readErrorPage(path string) (proxy.ErrorPage, error) {
	kind := ""
	switch strings.ToLower(filepath.Ext(path)) {
	case ".html", ".htm":
		kind = "text/html; charset=utf-8"
	case ".txt":
		kind = "text/plain; charset=utf-8"
	case ".json":
		kind = "application/json"
	case ".xml":
		kind = "application/xml"
	default:
		return proxy.ErrorPage{}, fmt.Errorf("%s: its name ends in none of .html, .txt, .json and .xml", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return proxy.ErrorPage{}, err
	}
	defer f.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(f, proxy.MaxErrorPage+1))
	switch {
	case err != nil:
		return proxy.ErrorPage{}, err
	case len(body) > proxy.MaxErrorPage:
		return proxy.ErrorPage{}, fmt.Errorf("%s: is larger than %d bytes", path, proxy.MaxErrorPage)
	case len(body) == 0:
		return proxy.ErrorPage{}, fmt.Errorf("%s: is empty", path)
	}
	return proxy.ErrorPage{ContentType: kind, Body: body}, nil
}
