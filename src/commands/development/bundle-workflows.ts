import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { hostlessCommand } from '../command.ts'
import { optional, text } from '../fields.ts'
import { Refused } from '../refused.ts'

const MAX_PATH = 4_096

export const bundleWorkflows = hostlessCommand({
  name: 'bundle-workflows',
  topic: 'Development',
  summary: 'Bundles the workflows into one file, for INTEGRATIONS_WORKFLOW_BUNDLE.',
  examples: [
    'integrations bundle-workflows --out workflows.bundle.js --workflows dist/workflows.js',
    'INTEGRATIONS_WORKFLOW_BUNDLE=workflows.bundle.js node node_modules/durable-integrations/dist/bin/worker.js',
  ],
  workflow: { none: 'it writes files where it is called' },
  fields: {
    out: text('where to; what is there is replaced', 'file', MAX_PATH),
    workflows: optional(
      text('the module with your workflows, which re-exports ours (default: ours alone)', 'path', MAX_PATH),
    ),
  },
  async runWithoutHost(_, { out, workflows }) {
    // Loaded here: it brings the worker and its bundler, which no other command has a use for.
    const { bundleFile } = await import('../../bundled-workflows.ts')
    const { text: code, manifest } = await bundleFile(workflows === undefined ? undefined : resolve(workflows))
    await put(out, code)
    const { package: version, sdk, workflows: names } = manifest
    return { file: out, bytes: Buffer.byteLength(code), package: version, sdk, workflows: names }
  },
  show: ({ file, package: version, sdk, workflows }) =>
    `Written: ${file}, with ${workflows.length} workflows, for durable-integrations ${version} and the Temporal SDK ${sdk}.`,
})

/** Beside its place first: a worker that starts meanwhile reads the old one or the new one. */
async function put(file: string, code: string): Promise<void> {
  const beside = `${file}.${process.pid}.new`
  try {
    await mkdir(dirname(file), { recursive: true })
    await writeFile(beside, code)
    await rename(beside, file)
  } catch (error) {
    await rm(beside, { force: true }).catch(() => {})
    const { message } = error as NodeJS.ErrnoException
    throw new Refused('not_writable', `The bundle can't be written to ${file}: ${message}. Give another by --out.`)
  }
}
