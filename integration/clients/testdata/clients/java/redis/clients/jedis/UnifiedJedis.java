package redis.clients.jedis;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import redis.clients.jedis.commands.ProtocolCommand;

/**
 * UnifiedJedis stands in for that of Jedis: one connection, and the methods that send any command. As there,
 * replies are byte[], Long, List or null, and an error is thrown. That of Jedis waits 2 s for a command that does
 * not block, so this one refuses to have such a command WAIT for longer.
 */
public class UnifiedJedis implements AutoCloseable {
    private static final int PATIENCE = 120000;
    private final Socket socket;
    private final InputStream in;

    UnifiedJedis(String host, int port) {
        try {
            socket = new Socket(host, port);
            in = new BufferedInputStream(socket.getInputStream());
        } catch (IOException e) {
            throw new RuntimeException(e);
        }
    }

    public Object sendCommand(ProtocolCommand command, String... args) {
        int wait = Arrays.asList(args).indexOf("WAIT");
        if (wait >= 0 && Long.parseLong(args[wait + 1]) >= 2000) {
            throw new IllegalArgumentException("sendBlockingCommand can wait for so long");
        }
        return send(PATIENCE, command, bytes(args));
    }

    public Object sendCommand(ProtocolCommand command, byte[]... args) {
        return send(PATIENCE, command, args);
    }

    public Object sendBlockingCommand(ProtocolCommand command, String... args) {
        return send(0, command, bytes(args));
    }

    private static byte[][] bytes(String... args) {
        byte[][] all = new byte[args.length][];
        for (int i = 0; i < args.length; i++) all[i] = args[i].getBytes();
        return all;
    }

    private synchronized Object send(int timeout, ProtocolCommand command, byte[]... args) {
        try {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            out.write(("*" + (args.length + 1) + "\r\n").getBytes());
            bulk(out, command.getRaw());
            for (byte[] arg : args) bulk(out, arg);
            socket.setSoTimeout(timeout);
            socket.getOutputStream().write(out.toByteArray());
            return reply();
        } catch (IOException e) {
            throw new RuntimeException(e);
        }
    }

    private static void bulk(ByteArrayOutputStream out, byte[] text) throws IOException {
        out.write(("$" + text.length + "\r\n").getBytes());
        out.write(text);
        out.write("\r\n".getBytes());
    }

    private Object reply() throws IOException {
        String line = line();
        String rest = line.substring(1);
        switch (line.charAt(0)) {
            case '-': throw new RuntimeException(rest);
            case ':': return Long.valueOf(rest);
            case '+': return rest.getBytes();
            case '$':
                if (rest.equals("-1")) return null;
                byte[] text = in.readNBytes(Integer.parseInt(rest));
                line();
                return text;
            case '*':
                if (rest.equals("-1")) return null;
                List<Object> all = new ArrayList<>();
                for (int n = Integer.parseInt(rest); n > 0; n--) all.add(reply());
                return all;
            default: throw new IOException("what is " + line + "?");
        }
    }

    private String line() throws IOException {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        for (int b = in.read(); b != '\n'; b = in.read()) {
            if (b < 0) throw new IOException("the connection has ended");
            if (b != '\r') text.write(b);
        }
        return text.toString();
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException e) {
            throw new RuntimeException(e);
        }
    }
}
