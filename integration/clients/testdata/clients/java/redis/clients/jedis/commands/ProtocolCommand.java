package redis.clients.jedis.commands;

/** ProtocolCommand stands in for that of Jedis. */
public interface ProtocolCommand {
    byte[] getRaw();
}
