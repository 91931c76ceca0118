import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.PrintWriter;
import java.nio.file.*;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

/** Runs the story below on an empty database and writes what Debezium's Postgres connector made of it.
 *  Arguments: host, port, database, schemas.enable, decimal.handling.mode, folder for offsets, records file, expected file. */
public class Recorder {
    static final String TABLES = """
        CREATE TABLE public.customers (id int PRIMARY KEY, name text, city varchar(40), balance numeric(12,2),
          limit_big numeric(30,5), born date, seen timestamp(6), seen_ms timestamp(3), updated timestamptz,
          active boolean, score double precision, ratio real, small smallint, big bigint, doc text, raw bytea,
          tags text[], uid uuid, info jsonb, t time);
        ALTER TABLE public.customers ALTER COLUMN doc SET STORAGE EXTERNAL, ALTER COLUMN raw SET STORAGE EXTERNAL,
          ALTER COLUMN tags SET STORAGE EXTERNAL, ALTER COLUMN info SET STORAGE EXTERNAL;
        CREATE TABLE public.notes (id int PRIMARY KEY, doc text, n int);
        ALTER TABLE public.notes ALTER COLUMN doc SET STORAGE EXTERNAL;
        ALTER TABLE public.notes REPLICA IDENTITY FULL;
        CREATE FUNCTION long_text(seed text, parts int) RETURNS text LANGUAGE sql IMMUTABLE AS
          $$ SELECT string_agg(md5(seed || i), '' ORDER BY i) FROM generate_series(1, parts) i $$;
        INSERT INTO public.customers VALUES
          (1, 'Zoë Müller', 'Köln', -12.34, -1234567890123456789012345.67890, '1969-12-31',
           '1969-12-31 23:59:59.999999', '1965-03-04 05:06:07.089', '1968-01-02 03:04:05.678901+02', true,
           -2.5e-7, 0.1, -32768, -9223372036854775808, long_text('one', 80), NULL, ARRAY['α', 'b, "c"', NULL],
           '0b1f6b0e-6c1d-4b5e-9a51-0d3c1f4b7a01', '{"x": 1.50, "ключ": ["é", null]}', '23:59:59.999999'),
          (2, '李雷', NULL, -0.01, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL);
        """;

    static final String[] BEFORE_TRUNCATE = {
        """
        INSERT INTO public.customers VALUES (3, 'Long', 'Brno', 100.00, 0.00001, '2024-02-29', '2024-02-29 12:34:56.123456',
          '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.123456+00', false, 0.1, 1.5, 1, 3000000000, long_text('three', 300),
          decode(long_text('raw', 200), 'hex'), (SELECT array_agg(md5('tag' || i) ORDER BY i) FROM generate_series(1, 70) i),
          '0b1f6b0e-6c1d-4b5e-9a51-0d3c1f4b7a03', jsonb_build_object('long', long_text('info', 75)), '12:34:56')""",
        """
        INSERT INTO public.customers VALUES (4, 'Renée', 'São Paulo', 0.00, -0.00001, '1970-01-01', '1970-01-01 00:00:00',
          '1970-01-01 00:00:00', '1970-01-01 00:00:00+00', true, 0, 0, 0, 0, 'short', '\\x00ff10', ARRAY['one', 'two'],
          '0b1f6b0e-6c1d-4b5e-9a51-0d3c1f4b7a04', '{"a": {"b": [1, 2]}}', '00:00:00')""",
        """
        INSERT INTO public.customers VALUES (5, '', '', 9999999999.99, 9999999999999999999999999.99999, '9999-12-31',
          '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999', '9999-12-31 23:59:59.999999+00', true,
          1.7976931348623157e308, 3.4e38, 32767, 9223372036854775807, '', '\\x', '{}',
          'ffffffff-ffff-ffff-ffff-ffffffffffff', 'null', '00:00:00.000001')""",
        "UPDATE public.customers SET name = 'Longer' WHERE id = 3",
        "UPDATE public.customers SET city = 'Bonn' WHERE id = 1",
        "UPDATE public.customers SET doc = long_text('new', 80) WHERE id = 3",
        "UPDATE public.customers SET id = 40 WHERE id = 4",
        "DELETE FROM public.customers WHERE id = 5",
        "BEGIN; DELETE FROM public.customers WHERE id = 2; "
            + "INSERT INTO public.customers (id, name, balance) VALUES (2, 'again', 2.50); COMMIT",
        "BEGIN; UPDATE public.customers SET name = 'first', balance = 1.00 WHERE id = 40; "
            + "UPDATE public.customers SET name = 'second' WHERE id = 40; COMMIT",
        "ALTER TABLE public.customers ADD COLUMN level int",
        "UPDATE public.customers SET level = 7 WHERE id = 40",
        "UPDATE public.customers SET city = NULL, balance = NULL WHERE id = 1",
        "INSERT INTO public.notes VALUES (1, long_text('note', 80), 1)",
        "UPDATE public.notes SET n = 2 WHERE id = 1",
        "DELETE FROM public.notes WHERE id = 1"};

    static final String[] TRUNCATE_AND_AFTER = {
        "TRUNCATE public.customers",
        "INSERT INTO public.customers (id, name, balance, level) VALUES (6, 'after', -6.00, 1)"};

    static final String CONTENTS = """
        SELECT coalesce(json_agg(to_jsonb(c) || jsonb_build_object('balance', balance::text, 'limit_big', limit_big::text,
          'seen', to_char(seen, 'YYYY-MM-DD"T"HH24:MI:SS.US'), 'seen_ms', to_char(seen_ms, 'YYYY-MM-DD"T"HH24:MI:SS.MS'),
          'updated', to_char(updated AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
          'raw', replace(encode(raw, 'base64'), E'\\n', ''), 'info', info::text, 'score', score::text,
          'ratio', ratio::text) ORDER BY id), '[]') FROM public.customers c""";

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        Path folder = Path.of(args[5]);
        String url = "jdbc:postgresql://" + args[0] + ":" + args[1] + "/" + args[2] + "?user=postgres";
        Properties options = new Properties();
        for (String option : List.of("name=recorder", "connector.class=io.debezium.connector.postgresql.PostgresConnector",
                "plugin.name=pgoutput", "topic.prefix=shop", "table.include.list=public.customers,public.notes",
                "snapshot.mode=initial", "skipped.operations=none", "publication.autocreate.mode=filtered",
                "offset.storage=org.apache.kafka.connect.storage.FileOffsetBackingStore", "offset.flush.interval.ms=1000",
                "offset.storage.file.filename=" + folder.resolve("offsets.dat"), "slot.name=recorder",
                "slot.drop.on.stop=true", "database.user=postgres", "database.hostname=" + args[0],
                "database.port=" + args[1], "database.dbname=" + args[2], "decimal.handling.mode=" + args[4],
                "key.converter.schemas.enable=" + args[3], "value.converter.schemas.enable=" + args[3])) {
            options.put(option.substring(0, option.indexOf('=')), option.substring(option.indexOf('=') + 1));
        }
        Map<String, Object> expected = new LinkedHashMap<>();
        AtomicInteger written = new AtomicInteger();
        ExecutorService thread = Executors.newSingleThreadExecutor();
        try (Connection database = DriverManager.getConnection(url); Statement statement = database.createStatement();
                PrintWriter out = new PrintWriter(Files.newBufferedWriter(Path.of(args[6])))) {
            statement.execute(TABLES);
            DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(options)
                .notifying(event -> {
                    Map<String, String> line = new LinkedHashMap<>();
                    line.put("topic", event.destination());
                    line.put("key", event.key());
                    line.put("value", event.value());
                    try {
                        out.println(json.writeValueAsString(line));
                    } catch (java.io.IOException error) {
                        throw new IllegalStateException(error);
                    }
                    written.incrementAndGet();
                }).build();
            thread.execute(engine);
            while (written.get() < 2 || !"t".equals(ask(statement,
                    "SELECT coalesce(bool_or(active), false) FROM pg_replication_slots WHERE slot_name = 'recorder'"))) {
                Thread.sleep(500);
            }
            expected.put("after_snapshot", json.readTree(ask(statement, CONTENTS)));
            for (String change : BEFORE_TRUNCATE) statement.execute(change);
            expected.put("before_truncate", json.readTree(ask(statement, CONTENTS)));
            for (String change : TRUNCATE_AND_AFTER) statement.execute(change);
            expected.put("end", json.readTree(ask(statement, CONTENTS)));
            for (int before = -1; before != written.get(); Thread.sleep(5000)) before = written.get();
            engine.close();
        }
        thread.shutdown();
        Files.writeString(Path.of(args[7]), json.writerWithDefaultPrettyPrinter().writeValueAsString(expected) + "\n");
    }

    static String ask(Statement statement, String query) throws SQLException {
        try (ResultSet rows = statement.executeQuery(query)) {
            rows.next();
            return rows.getString(1);
        }
    }
}
