package airflowprovidercdc;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A log store for s3a that writes each version of a log once, however many drivers write.
 *
 * <p>Delta's own store for S3 asks whether a version exists, and then writes it. Between the two, a
 * driver in another JVM can write the same version, and its commit is lost. This store writes by a
 * conditional PUT (If-None-Match), which S3 refuses if the object exists. Delta then resolves the
 * conflict as on any other store.
 *
 * <p>Before its first commit to a bucket, a JVM checks that the bucket honours the condition.
 */
public class ConditionalPutLogStore extends S3SingleDriverLogStore {

    private static final String CONDITION = "fs.option.create.conditional.overwrite";
    private static final int ATTEMPTS = 5;
    private static final long PAUSE_MILLISECONDS = 200;
    private static final Set CHECKED = ConcurrentHashMap.newKeySet();

    public ConditionalPutLogStore(Configuration conf) {
        super(conf);
    }

    public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf)
            throws IOException {
        if (overwrite.booleanValue()) {
            super.write(path, actions, overwrite, conf);
            return;
        }
        FileSystem files = path.getFileSystem(conf);
        Path target = files.makeQualified(path);
        check(files, target);
        ByteArrayOutputStream lines = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            lines.write(((String) actions.next()).getBytes(StandardCharsets.UTF_8));
            lines.write('\n');
        }
        create(files, target, lines.toByteArray());
    }

    private static void create(FileSystem files, Path target, byte[] content) throws IOException {
        for (int attempt = 1; ; attempt++) {
            try {
                put(files, target, content);
                return;
            } catch (IOException error) {
                byte[] found = contentOf(files, target);
                // Each commit holds a random id. If the answer to a PUT was lost, the client
                // repeats it, and S3 refuses the repetition because of the first one.
                if (found != null && Arrays.equals(found, content)) {
                    return;
                }
                if (found != null) {
                    throw new FileAlreadyExistsException(target.toString());
                }
                // S3 answers 409 to a PUT beside another one that did not succeed.
                if (attempt == ATTEMPTS) {
                    throw error;
                }
                pause(attempt);
            }
        }
    }

    private static void put(FileSystem files, Path target, byte[] content) throws IOException {
        FSDataOutputStream stream =
            (FSDataOutputStream) files.createFile(target).must(CONDITION, true).build();
        try {
            stream.write(content);
        } finally {
            stream.close();
        }
    }

    private static byte[] contentOf(FileSystem files, Path target) throws IOException {
        try {
            InputStream stream = files.open(target);
            try {
                return stream.readAllBytes();
            } finally {
                stream.close();
            }
        } catch (FileNotFoundException absent) {
            return null;
        }
    }

    private static void check(FileSystem files, Path target) throws IOException {
        String bucket = files.getUri().toString();
        if (CHECKED.contains(bucket)) {
            return;
        }
        // Delta ignores files with such a name.
        Path probe = new Path(target.getParent(), ".conditional-put-" + UUID.randomUUID());
        boolean isRefused = false;
        try {
            put(files, probe, new byte[] {1});
            try {
                put(files, probe, new byte[] {2});
            } catch (IOException refused) {
                byte[] found = contentOf(files, probe);
                if (found == null || found[0] != 1) {
                    throw refused;
                }
                isRefused = true;
            }
        } finally {
            files.delete(probe, false);
        }
        if (!isRefused) {
            throw new IOException(
                "Bucket " + bucket + ": is not safe for Delta tables that several drivers write."
                    + " Cause: its store ignores the header If-None-Match of a PUT, so one driver"
                    + " can overwrite the commit of another. Fix: use a store with conditional"
                    + " writes; or let only one driver at a time write there, and set"
                    + " spark.delta.logStore.s3a.impl=" + S3SingleDriverLogStore.class.getName());
        }
        CHECKED.add(bucket);
    }

    private static void pause(int attempt) throws IOException {
        try {
            Thread.sleep(PAUSE_MILLISECONDS * attempt);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException(error.getMessage());
        }
    }
}
