import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpSession;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.zip.CRC32;

/** What the tests ask a Tomcat to do, by path. */
public class App extends HttpServlet {
    private static final byte[] BLOCK = new byte[32 << 10];

    static {
        for (int i = 0; i < BLOCK.length; i++) {
            BLOCK[i] = (byte) (i % 251);
        }
    }

    @Override
    protected void service(HttpServletRequest req, HttpServletResponse res) throws IOException {
        res.setHeader("X-Member", System.getProperty("member"));
        switch (req.getPathInfo()) {
            case "/counter":
                count(req, res, 1);
                break;
            case "/peek":
                count(req, res, 0);
                break;
            case "/request":
                describe(req, res);
                break;
            case "/upload":
                upload(req, res);
                break;
            case "/big":
                big(req, res);
                break;
            case "/stream":
                stream(req, res);
                break;
            case "/sleep":
                sleep(Long.parseLong(req.getParameter("ms")));
                say(res, "slept");
                break;
            case "/header":
                res.setHeader("X-City", "Z\u00fcrich");
                say(res, "header");
                break;
            case "/early":
                res.setStatus(413);
                say(res, "nobody has read it");
                break;
            case "/error":
                throw new IllegalStateException("asked for");
            case "/exit":
                Runtime.getRuntime().halt(1);
                break;
            default:
                res.sendError(404);
        }
    }

    private static void say(HttpServletResponse res, String text) throws IOException {
        res.setContentType("text/plain; charset=UTF-8");
        byte[] b = text.getBytes(StandardCharsets.UTF_8);
        res.setContentLength(b.length);
        res.getOutputStream().write(b);
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Adds to the counter of the session; without a session only if there is something to add. */
    private static void count(HttpServletRequest req, HttpServletResponse res, int n) throws IOException {
        HttpSession s = req.getSession(n > 0);
        Integer had = s == null ? null : (Integer) s.getAttribute("counter");
        int now = (had == null ? 0 : had) + n;
        if (n > 0) {
            s.setAttribute("counter", now);
        }
        say(res, now + " " + (s == null ? "none" : s.getId()));
    }

    /** Says what has arrived, a line each. */
    private static void describe(HttpServletRequest req, HttpServletResponse res) throws IOException {
        StringBuilder b = new StringBuilder();
        b.append(req.getMethod()).append(' ').append(req.getRequestURI()).append(' ').append(req.getQueryString());
        b.append(' ').append(req.getProtocol()).append('\n');
        b.append("remote ").append(req.getRemoteAddr()).append(' ').append(req.getRemotePort()).append('\n');
        b.append("local ").append(req.getLocalAddr()).append('\n');
        b.append("server ").append(req.getServerName()).append(' ').append(req.getServerPort()).append('\n');
        b.append("scheme ").append(req.getScheme()).append(' ').append(req.isSecure()).append('\n');
        b.append("activation ").append(req.getAttribute("JK_LB_ACTIVATION")).append('\n');
        for (String name : Collections.list(req.getHeaderNames())) {
            for (String value : Collections.list(req.getHeaders(name))) {
                b.append("header ").append(name.toLowerCase()).append(": ").append(value).append('\n');
            }
        }
        say(res, b.toString());
    }

    /** Reads the body and says how long it was and what it adds up to. */
    private static void upload(HttpServletRequest req, HttpServletResponse res) throws IOException {
        CRC32 crc = new CRC32();
        byte[] b = new byte[32 << 10];
        long n = 0;
        InputStream in = req.getInputStream();
        for (int m; (m = in.read(b)) >= 0; n += m) {
            crc.update(b, 0, m);
        }
        say(res, n + " " + crc.getValue());
    }

    /** Sends so many bytes, with a length or without. */
    private static void big(HttpServletRequest req, HttpServletResponse res) throws IOException {
        long n = Long.parseLong(req.getParameter("bytes"));
        if (req.getParameter("chunked") == null) {
            res.setContentLengthLong(n);
        }
        OutputStream out = res.getOutputStream();
        for (; n > 0; n -= BLOCK.length) {
            out.write(BLOCK, 0, (int) Math.min(n, BLOCK.length));
        }
    }

    /** Sends back each line of the body as it comes, at once. */
    private static void stream(HttpServletRequest req, HttpServletResponse res) throws IOException {
        InputStream in = req.getInputStream();
        OutputStream out = res.getOutputStream();
        for (int c; (c = in.read()) >= 0;) {
            out.write(c);
            if (c == '\n') {
                res.flushBuffer();
            }
        }
    }
}
