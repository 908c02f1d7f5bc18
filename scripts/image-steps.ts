/**
 * Builds the image by hand, without a container engine: the Dockerfile's own steps in a clean folder.
 *
 * `npx tsx --conditions=durable-source scripts/image-steps.ts <empty folder>`
 *
 * It says what it does, step by step, and at the end, as one line of JSON on stdout, what would run. test/deploy/image.long.test.ts
 * runs that.
 */
import { mkdirSync, readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildByHand } from './image/build.ts'

const [folder, ...more] = process.argv.slice(2)
if (folder === undefined || more.length > 0) {
  console.error('Usage: npx tsx --conditions=durable-source scripts/image-steps.ts <empty folder>')
  process.exit(2)
}
mkdirSync(folder, { recursive: true })
if (readdirSync(folder).length > 0) {
  console.error(`${folder} is not empty.`)
  process.exit(1)
}
try {
  const source = fileURLToPath(new URL('..', import.meta.url))
  const image = await buildByHand(source, resolve(folder), (line) => console.error(line))
  console.log(JSON.stringify(image))
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exit(1)
}
