#!/usr/bin/env node
/** The `integrations` command line. */
import { createProgram } from '../cli/program.ts'
import { loadHost } from './host.ts'
import { runProcess } from './run.ts'

await runProcess(async () => {
  await createProgram(async () => (await loadHost()).integrations).parseAsync()
})
