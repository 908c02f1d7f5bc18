/**
 * The workflow code as one bundle: made at a worker's start, or before it, as a file with a first line that says what it is.
 * Rule: docs/behaviour/workers.md, "The workflow bundle".
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { createContext, Script } from 'node:vm'
import type { WorkflowBundle } from '@temporalio/worker'
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker'
import { InvalidArgumentException, InvalidConfiguration } from './framework/errors.ts'
import type { Logger } from './framework/logger.ts'
import { errorLine } from './framework/logger.ts'
import { packageVersion } from './framework/package-version.ts'
import { WORKFLOW } from './workflows/ids.ts'

/** What the first line of a bundle's file says. A worker of another package or SDK must not run it: replay could differ. */
interface BundleManifest {
  readonly package: string
  readonly sdk: string
  /** The names that the bundle exports. */
  readonly workflows: readonly string[]
}

const HEADER = '/* durable-integrations workflow bundle '
const HEADER_END = ' */\n'
const OURS: readonly string[] = Object.values(WORKFLOW)

/** From sources nothing that was built is used: it may be older than they are. */
const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts')
/** Beside this file, written by `npm run build`. */
const SHIPPED = fileURLToPath(new URL('./workflow-bundle.js', import.meta.url))

/**
 * The workflow code as one bundle, made by the SDK's bundler.
 *
 * @param logger gets its warnings; default: stderr
 */
export function bundleWorkflows(workflowsPath?: string, logger?: Pick<Logger, 'warn'>): Promise<WorkflowBundle> {
  const extension = RUNS_FROM_SOURCE ? 'ts' : 'js'
  return bundleWorkflowCode({
    workflowsPath: workflowsPath ?? fileURLToPath(new URL(`./workflows/index.${extension}`, import.meta.url)),
    workflowInterceptorModules: ['trace-headers', 'console-lines'].map((name) =>
      fileURLToPath(new URL(`./workflows/${name}.${extension}`, import.meta.url)),
    ),
    // Its progress lines are of no use to an operator.
    logger: new DefaultLogger(
      'WARN',
      logger && (({ message }) => logger.warn({ event: 'worker.bundle_warning' }, message)),
    ),
  })
}

/**
 * The text of a bundle's file, and what it holds.
 *
 * @throws InvalidArgumentException when the workflows can't be bundled or lack ours
 */
export async function bundleFile(workflowsPath?: string): Promise<{ text: string; manifest: BundleManifest }> {
  const refuse = (reason: string, cause?: unknown): never => {
    throw new InvalidArgumentException('--workflows', reason, { cause })
  }
  if (workflowsPath !== undefined && !existsSync(workflowsPath)) refuse(`there is no ${workflowsPath}`)
  try {
    const { code } = await bundleWorkflows(workflowsPath)
    const manifest = { ...versions(), workflows: exportedNames(code) }
    const lacking = lackingIn(manifest)
    if (lacking.length > 0) refuse(`it does not export ${lacking.join(', ')}. ${RE_EXPORT}`)
    return { text: `${HEADER}${JSON.stringify(manifest)}${HEADER_END}${code}`, manifest }
  } catch (error) {
    if (error instanceof InvalidArgumentException) throw error
    return refuse(`it can't be bundled: ${errorLine(error, 500)}`, error)
  }
}

/**
 * A bundle that was made before.
 *
 * @param path of INTEGRATIONS_WORKFLOW_BUNDLE
 * @throws InvalidConfiguration when it is of another version, lacks our workflows, or is another file
 */
export function readBundle(path: string): WorkflowBundle {
  const read = readOrFault(path)
  if ('code' in read) return read
  throw new InvalidConfiguration([
    {
      key: 'INTEGRATIONS_WORKFLOW_BUNDLE',
      expected: 'a file made by `integrations bundle-workflows` of this very version; make it again',
      received: `${path}, ${read.fault}`,
    },
  ])
}

/**
 * The bundle that the package brings. Null where it does not fit, and then the worker makes one: the SDK beside us may be
 * newer than that of the build.
 */
export function shippedBundle(
  logger: Pick<Logger, 'info'>,
  path = RUNS_FROM_SOURCE ? null : SHIPPED,
): WorkflowBundle | null {
  if (path === null) return null
  const read = readOrFault(path)
  if ('code' in read) return read
  logger.info(
    { event: 'worker.bundle_not_used', why: `${path}, ${read.fault}` },
    'the bundle of workflows that the package brings is not used; the worker makes its own',
  )
  return null
}

function readOrFault(path: string): WorkflowBundle | { fault: string } {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    return { fault: `which can't be read: ${errorLine(error, 200)}` }
  }
  const manifest = manifestOf(text)
  if (manifest === null) return { fault: 'which does not begin with the line that such a file begins with' }
  const here = versions()
  if (manifest.package !== here.package)
    return { fault: `made by durable-integrations ${manifest.package}; this is ${here.package}` }
  if (manifest.sdk !== here.sdk) return { fault: `made with the Temporal SDK ${manifest.sdk}; this is ${here.sdk}` }
  const lacking = lackingIn(manifest)
  if (lacking.length > 0) return { fault: `which lacks our workflows ${lacking.join(', ')}. ${RE_EXPORT}` }
  return { code: text.slice(text.indexOf(HEADER_END) + HEADER_END.length) }
}

const RE_EXPORT = "Its module has to say: export * from 'durable-integrations/workflows'"

function manifestOf(text: string): BundleManifest | null {
  const end = text.indexOf(HEADER_END)
  if (!text.startsWith(HEADER) || end < 0) return null
  try {
    const { package: ours, sdk, workflows } = JSON.parse(text.slice(HEADER.length, end)) as Partial<BundleManifest>
    return typeof ours === 'string' && typeof sdk === 'string' && Array.isArray(workflows)
      ? { package: ours, sdk, workflows }
      : null
  } catch {
    return null
  }
}

function lackingIn({ workflows }: BundleManifest): string[] {
  return OURS.filter((name) => !workflows.includes(name))
}

function versions(): { package: string; sdk: string } {
  const sdk = createRequire(import.meta.url)('@temporalio/worker/package.json') as { version: string }
  return { package: packageVersion(), sdk: sdk.version }
}

/** What the bundle exports, as the SDK will see it: by running its modules in a context of their own. */
function exportedNames(code: string): string[] {
  // What the SDK's workflow sandbox gives beside the language itself.
  const globals = { __webpack_module_cache__: {}, TextEncoder, TextDecoder, URL, URLSearchParams, AbortController }
  const context = createContext({ ...globals, AsyncLocalStorage, console }) as {
    __TEMPORAL__?: { importWorkflows(): Record<string, unknown> }
  }
  new Script(code).runInContext(context)
  const exported = context.__TEMPORAL__?.importWorkflows() ?? {}
  return Object.keys(exported).filter((name) => typeof exported[name] === 'function')
}
