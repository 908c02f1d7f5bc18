/**
 * Tests that wait for half a minute or a whole one, and need no core for it: an end of a worker, a server's patience. In one file they
 * wait beside each other.
 */
import '../temporal/wedged.ts'
import './early-sigterm.ts'
import './worker-failed.ts'
