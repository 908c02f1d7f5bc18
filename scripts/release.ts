/**
 * `npm run release -- <version> [--dry-run]`: makes a release of this checkout, and says how to publish it.
 *
 * docs/releasing.md. It pushes and publishes nothing.
 */
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { release } from './release/release.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'dry-run': { type: 'boolean', default: false } },
})
const [version, ...more] = positionals
if (version === undefined || more.length > 0) {
  console.error('Usage: npm run release -- <version> [--dry-run]')
  process.exit(2)
}
try {
  await release({
    root: fileURLToPath(new URL('..', import.meta.url)),
    version,
    isDryRun: values['dry-run'],
    date: new Date().toISOString().slice(0, 'yyyy-mm-dd'.length),
    log: (line) => console.log(line),
  })
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exit(1)
}
