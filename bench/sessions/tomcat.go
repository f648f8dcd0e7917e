package main

import (
	"fmt"
	"strings"

	"github.com/understudy-lb/understudy/bench/stage"
)

// hitJSP does what the handler of the Go nodes does.
const hitJSP = `<%@ page session="true" trimDirectiveWhitespaces="true" contentType="text/plain" %><%
int bytes = request.getParameter("bytes") == null ? 0 : Integer.parseInt(request.getParameter("bytes"));
if (bytes > 0 && ("1".equals(request.getParameter("rewrite")) || session.getAttribute("data") == null)) {
  byte[] b = new byte[bytes];
  long x = java.util.concurrent.ThreadLocalRandom.current().nextLong();
  for (int i = 0; i < b.length; i++) b[i] = (byte) ((x >> (i % 8 * 8)) ^ i);
  session.setAttribute("data", b);
}
Integer n = (Integer) session.getAttribute("counter");
n = n == null ? 1 : n + 1;
session.setAttribute("counter", n);
out.print(n);
%>`

const heapJSP = `<%@ page session="false" trimDirectiveWhitespaces="true" contentType="text/plain" %><%
System.gc();
Runtime r = Runtime.getRuntime();
out.print(r.totalMemory() - r.freeMemory());
%>`

const readyJSP = `<%@ page session="false" contentType="text/plain" %>ready`

const webXML = `<?xml version="1.0" encoding="UTF-8"?>
<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0">
  %s
  <session-config><session-timeout>60</session-timeout></session-config>
  %s
</web-app>
`

// A manager is one of Tomcat's ways to keep sessions.
type manager struct {
	class string // DeltaManager or BackupManager; empty: no replication
	mode  int    // channelSendOptions
}

// Send options of Tomcat's cluster: 6 waits until the other side has applied the
// message, 8 queues it.
const (
	sendSynchronized = 6
	sendAsynchronous = 8
)

// base writes a CATALINA_BASE for one node. members are the receiver ports of
// all nodes, i this node's place among them.
func (m manager) base(dir string, httpPort, shutdownPort int, members []int, i int) error {
	var mapping strings.Builder
	for _, page := range []string{"hit", "heap", "ready"} {
		fmt.Fprintf(&mapping, "<servlet><servlet-name>%[1]s</servlet-name><jsp-file>/%[1]s.jsp</jsp-file></servlet>"+
			"<servlet-mapping><servlet-name>%[1]s</servlet-name><url-pattern>/%[1]s</url-pattern></servlet-mapping>\n", page)
	}
	cluster, distributable := "", ""
	if m.class != "" {
		distributable = "<distributable/>"
		cluster = m.cluster(members, i)
	}
	server := fmt.Sprintf(`<Server port="%d" shutdown="SHUTDOWN">
  <Service name="Catalina">
    <Connector address="127.0.0.1" port="%d" protocol="HTTP/1.1" maxKeepAliveRequests="-1" maxThreads="100" connectionTimeout="60000"/>
    <Engine name="Catalina" defaultHost="localhost" jvmRoute="n%d">
      %s
      <Host name="localhost" appBase="webapps" unpackWARs="false" autoDeploy="false"/>
    </Engine>
  </Service>
</Server>
`, shutdownPort, httpPort, i, cluster)
	return stage.TomcatBase(dir, server, map[string]string{
		"WEB-INF/web.xml": fmt.Sprintf(webXML, distributable, mapping.String()),
		"hit.jsp":         hitJSP,
		"heap.jsp":        heapJSP,
		"ready.jsp":       readyJSP,
	})
}

// cluster is the element with static members: no multicast leaves the machine.
func (m manager) cluster(members []int, i int) string {
	var others strings.Builder
	member := func(class string, j int) string {
		id := make([]string, 16)
		for k := range id {
			id[k] = "0"
		}
		id[15] = fmt.Sprint(j + 1)
		return fmt.Sprintf(`<%s className="org.apache.catalina.tribes.membership.StaticMember" host="127.0.0.1" port="%d" domain="bench" uniqueId="{%s}"/>`,
			class, members[j], strings.Join(id, ","))
	}
	for j := range members {
		if j != i {
			others.WriteString(member("Member", j))
		}
	}
	return fmt.Sprintf(`<Cluster className="org.apache.catalina.ha.tcp.SimpleTcpCluster" channelSendOptions="%[1]d">
        <Manager className="org.apache.catalina.ha.session.%[2]s" notifyListenersOnReplication="false" %[5]s/>
        <Channel className="org.apache.catalina.tribes.group.GroupChannel">
          <Membership className="org.apache.catalina.tribes.membership.StaticMembershipService">%[6]s%[3]s</Membership>
          <Receiver className="org.apache.catalina.tribes.transport.nio.NioReceiver" address="127.0.0.1" port="%[4]d" autoBind="0"/>
          <Sender className="org.apache.catalina.tribes.transport.ReplicationTransmitter"><Transport className="org.apache.catalina.tribes.transport.nio.PooledParallelSender"/></Sender>
          <Interceptor className="org.apache.catalina.tribes.group.interceptors.TcpFailureDetector"/>
          <Interceptor className="org.apache.catalina.tribes.group.interceptors.MessageDispatchInterceptor"/>
        </Channel>
        <Valve className="org.apache.catalina.ha.tcp.ReplicationValve" filter=""/>
        <ClusterListener className="org.apache.catalina.ha.session.ClusterSessionListener"/>
      </Cluster>`, m.mode, m.class, others.String(), members[i], m.options(), member("LocalMember", i))
}

func (m manager) options() string {
	if m.class == "BackupManager" {
		return fmt.Sprintf(`mapSendOptions="%d"`, m.mode)
	}
	return ""
}
