package stage

import (
	"os"
	"path/filepath"
)

// CatalinaHome is where Debian's package tomcat10 puts the program.
const CatalinaHome = "/usr/share/tomcat10"

// Catalina is the command that starts a Tomcat in the foreground, with "run".
func Catalina() string { return filepath.Join(CatalinaHome, "bin", "catalina.sh") }

// TomcatBase writes a CATALINA_BASE to a folder: its server.xml, and the files of
// the application at /.
func TomcatBase(dir, server string, app map[string]string) error {
	files := map[string]string{
		"conf/server.xml":         server,
		"conf/web.xml":            defaultWebXML,
		"conf/logging.properties": "handlers=java.util.logging.ConsoleHandler\n.handlers=java.util.logging.ConsoleHandler\njava.util.logging.ConsoleHandler.level=WARNING\n.level=WARNING\n",
	}
	for name, text := range app {
		files["webapps/ROOT/"+name] = text
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, d := range []string{"logs", "temp", "work"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// TomcatEnv is the environment of a Tomcat with that base and heap (-Xmx).
func TomcatEnv(base, heap string) []string {
	return []string{
		"CATALINA_HOME=" + CatalinaHome, "CATALINA_BASE=" + base,
		"CATALINA_OPTS=-Xmx" + heap + " -Djava.net.preferIPv4Stack=true -Djava.security.egd=file:/dev/urandom",
	}
}

// defaultWebXML is as much of conf/web.xml as JSP pages need.
const defaultWebXML = `<?xml version="1.0" encoding="UTF-8"?>
<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0">
  <servlet><servlet-name>jsp</servlet-name><servlet-class>org.apache.jasper.servlet.JspServlet</servlet-class>
    <init-param><param-name>development</param-name><param-value>false</param-value></init-param><load-on-startup>3</load-on-startup></servlet>
  <servlet-mapping><servlet-name>jsp</servlet-name><url-pattern>*.jsp</url-pattern></servlet-mapping>
</web-app>
`
