#!/usr/bin/env node
/** The `integrations` command, on the host whose `integrations.config.ts` is here. */
import { runCommandLine } from './command-line.ts'
import { loadHost } from './host.ts'

await runCommandLine(async () => (await loadHost()).integrations)
