package redis.clients.jedis;

/** JedisPooled stands in for that of Jedis. */
public class JedisPooled extends UnifiedJedis {
    public JedisPooled(String host, int port) {
        super(host, port);
    }
}
