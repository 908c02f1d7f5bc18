import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Command } from 'commander'
import type { Frame } from './cli/frame.ts'
import { Refused } from './refused.ts'

interface Options {
  readonly out: string
  readonly workflows?: string
}

/** `integrations bundle-workflows`: the workflow code as one file, so that no worker bundles it at its start. */
export function bundleWorkflowsCommand(frame: Frame): Command {
  return frame
    .command('bundle-workflows', 'Bundles the workflows into one file, for INTEGRATIONS_WORKFLOW_BUNDLE.', [
      'integrations bundle-workflows --out workflows.bundle.js --workflows dist/workflows.js',
      'INTEGRATIONS_WORKFLOW_BUNDLE=workflows.bundle.js node node_modules/durable-integrations/dist/bin/worker.js',
    ])
    .requiredOption('--out <file>', 'where to; what is there is replaced')
    .option('--workflows <path>', 'the module with your workflows, which re-exports ours (default: ours alone)')
    .action(
      frame.actionWithoutHost(async (_, { out, workflows }: Options) => {
        // Loaded here: it brings the worker and its bundler, which no other command has a use for.
        const { bundleFile } = await import('../bundled-workflows.ts')
        const { text, manifest } = await bundleFile(workflows === undefined ? undefined : resolve(workflows))
        await put(out, text)
        const { package: version, sdk, workflows: names } = manifest
        return {
          document: { file: out, bytes: Buffer.byteLength(text), package: version, sdk, workflows: names },
          text: `Written: ${out}, with ${names.length} workflows, for durable-integrations ${version} and the Temporal SDK ${sdk}.`,
        }
      }),
    )
}

/** Beside its place first: a worker that starts meanwhile reads the old one or the new one. */
async function put(file: string, text: string): Promise<void> {
  const beside = `${file}.${process.pid}.new`
  try {
    await mkdir(dirname(file), { recursive: true })
    await writeFile(beside, text)
    await rename(beside, file)
  } catch (error) {
    await rm(beside, { force: true }).catch(() => {})
    const { message } = error as NodeJS.ErrnoException
    throw new Refused('not_writable', `The bundle can't be written to ${file}: ${message}. Give another by --out.`)
  }
}
