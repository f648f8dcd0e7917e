package proxy_test

import (
	"strings"
	"testing"

	"github.com/understudy-lb/understudy/proxy"
	"github.com/understudy-lb/understudy/proxy/worker"
)

const oneMember = "worker.a.type=http\nworker.a.host=h\nworker.a.port=1\n"

func TestNewErrors(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{{
		name: "no lb",
		text: oneMember + "worker.list=a\n",
		want: []string{"w.properties: worker.list", "no worker of type lb"},
	}, {
		name: "several lbs and no map",
		text: oneMember + "worker.x.type=lb\nworker.x.balance_workers=a\nworker.y.type=lb\nworker.y.balance_workers=a\nworker.list=x,y\n",
		want: []string{"w.properties:6: worker.list", `"x"`, `"y"`, "uriworkermap"},
	}, {
		name: "a cookie that cannot be",
		text: oneMember + "worker.x.type=lb\nworker.x.balance_workers=a\nworker.x.session_cookie=a b\nworker.list=x\n",
		want: []string{"w.properties:4: worker.x", "Cookie"},
	}, {
		name: "a source that is none",
		text: oneMember + "worker.a.source=nowhere\nworker.x.type=lb\nworker.x.balance_workers=a\nworker.list=x\n",
		want: []string{"w.properties:4: worker.a.source: \"nowhere\" is no IP address"},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file, err := worker.Parse("w.properties", strings.NewReader(tt.text), nil)
			if err == nil {
				_, err = proxy.New(proxy.Config{Workers: file})
			}
			if err == nil {
				t.Fatal("it starts")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
	if _, err := proxy.New(proxy.Config{}); err == nil {
		t.Error("New without workers succeeded")
	}
}

// Types that are not there yet are refused by name, also if the caller has ignored
// what Parse said.
func TestNewUnsupported(t *testing.T) {
	for _, text := range []string{
		"worker.a.type=ajp14\nworker.a.secretkey=k\nworker.x.type=lb\nworker.x.balance_workers=a\nworker.list=x\n",
	} {
		file, _ := worker.Parse("w.properties", strings.NewReader(text), nil)
		if _, err := proxy.New(proxy.Config{Workers: file}); err == nil || !strings.Contains(err.Error(), "not supported yet") {
			t.Errorf("New = %v for\n%s", err, text)
		}
	}
}
