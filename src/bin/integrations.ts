#!/usr/bin/env node
/** The `integrations` command line. */
import { runProgram } from '../cli/program.ts'
import { processTerminal } from '../cli/terminal.ts'
import { loadHost } from './host.ts'
import { ownStdout } from './stdout.ts'

// Read by the host's default logger: its lines are none of the command's result.
process.env.LOG_STREAM ||= 'stderr'
process.env.LOG_LEVEL ||= 'warn'

const interrupt = new AbortController()
process.on('SIGINT', () => {
  // Somebody who asks twice does not want to wait.
  if (interrupt.signal.aborted) process.exit(130)
  interrupt.abort()
})
process.on('SIGTERM', () => interrupt.abort())

const stdout = ownStdout()
const exitCode = await runProgram(process.argv.slice(2), {
  load: async () => (await loadHost()).integrations,
  terminal: processTerminal(stdout.write),
  signal: interrupt.signal,
})
await stdout.flushed()
process.exit(exitCode)
