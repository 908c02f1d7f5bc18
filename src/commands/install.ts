import type { Command } from 'commander'
import type { Integrations } from '../create-integrations.ts'
import { isIntegrationsError } from '../framework/errors.ts'
import { integrationId, minutes, owner } from './cli/arguments.ts'
import type { ConnectLink } from './cli/connect-link.ts'
import { connectsByOAuth, linkBase, linkText, makeConnectLink, TOKEN_KEYS } from './cli/connect-link.ts'
import { Interrupted } from './cli/failure.ts'
import type { CommandContext, Frame, Outcome } from './cli/frame.ts'
import { valueReader } from './cli/given-values.ts'
import type { Values } from './cli/install-questions.ts'
import { askMissing, askName } from './cli/install-questions.ts'
import { plain } from './cli/plain.ts'
import { fieldsOf } from './cli/schema-fields.ts'
import { Refused } from './refused.ts'

interface Options {
  readonly name?: string
  readonly credential: readonly string[]
  readonly metadata: readonly string[]
  readonly owner?: { readonly type: string; readonly id: number }
  readonly syncInterval?: number
  readonly integration?: number
  readonly skipCheck: boolean
  readonly force: boolean
}

type Provider = ReturnType<Integrations['admin']['providers']>[number]
type Integration = Awaited<ReturnType<Integrations['get']>>
type Check = Awaited<ReturnType<Integrations['admin']['check']>>

/** `integrations install <provider>`: stores an integration, and asks the provider whether the credentials are good or has a person connect it. */
export function installCommand(frame: Frame): Command {
  return frame
    .command(
      'install',
      'Stores an integration of a provider, and checks its credentials or prints a link to connect it.',
      [
        'integrations install github',
        'integrations install github --name "Our repository" --credential token=env:GITHUB_TOKEN --metadata owner=acme',
        'pass show stripe | integrations install stripe --credential api_key=- --owner team:7',
        'integrations install github --name "Our repository" --credential token=@/run/secrets/token --force',
      ],
    )
    .argument('<provider>', 'identifier of a registered provider')
    .option('--name <name>', "what people call it; default the provider's label")
    .option('--credential <key=value>', 'may be repeated; the value also as @file, env:NAME, or - for stdin', added, [])
    .option('--metadata <key=value>', 'may be repeated; the value also as @file, env:NAME, or - for stdin', added, [])
    .option('--owner <type:id>', "the host's record that it belongs to", owner)
    .option('--sync-interval <minutes>', "minutes between syncs; default the provider's", minutes)
    .option('--integration <id>', 'with --force: the one to update', integrationId)
    .option('--skip-check', "do not ask the provider's health check", false)
    .option('--force', 'update an existing one of this name, and keep what fails the check', false)
    .action(frame.action(install, { stopsItself: true }))
}

const added = (word: string, before: readonly string[]): string[] => [...before, word]

async function install(context: CommandContext, key: string, options: Options): Promise<Outcome> {
  const { integrations, terminal, signal } = context
  const provider = findProvider(integrations, key)
  const given = await givenValues(context, provider, options)
  const name = options.name ?? (terminal.isInteractive ? await askName(terminal, provider.label) : provider.label)
  const existing = await findExisting(integrations, provider, name, options)
  if (existing !== null && !options.force) throw alreadyInstalled(existing)

  const isOAuth = connectsByOAuth(provider)
  // An update merges: what is stored already need not be asked for.
  const { credentials, metadata } =
    existing === null && terminal.isInteractive
      ? await askMissing(terminal, provider, given, isOAuth ? TOKEN_KEYS : [])
      : given
  const mayConnect = isOAuth && (await needsPerson(integrations, existing, credentials))
  // Known to be possible before anything is stored. A provider that may do without is asked about the stored integration.
  if (mayConnect && !provider.isAuthorizationOptional) linkBase(integrations)
  const mayCheck = provider.hasHealthCheck && !options.skipCheck
  const values = {
    name,
    ...(options.owner === undefined ? {} : { owner: options.owner }),
    ...(options.syncInterval === undefined ? {} : { syncIntervalMinutes: options.syncInterval }),
  }
  const integration =
    existing === null
      ? // Off until it is checked: no sync and no webhook of what may be taken back, or can't be asked yet.
        await created(context, provider, {
          provider: key,
          ...values,
          credentials,
          metadata,
          isActive: !mayCheck && (!mayConnect || options.skipCheck),
        })
      : await integrations.update(existing.id, {
          ...values,
          ...(Object.keys(credentials).length === 0 ? {} : { credentials }),
          ...(Object.keys(metadata).length === 0 ? {} : { metadata: { ...existing.metadata, ...metadata } }),
        })
  const note = (action: string): Promise<void> =>
    integrations.admin.operator.note(integration.id, {
      token: context.by,
      action,
      target: `integration:${integration.id}`,
    })
  // Of one that is taken back again the row goes along.
  await note(existing === null ? 'create' : 'update')
  const connects = mayConnect && (!provider.isAuthorizationOptional || (await isNeeded(integrations, integration)))
  if (connects && existing === null) await takeBackWithoutLink(context, integration)
  const check = mayCheck && !connects ? await checked(context, integration, existing === null) : null
  if (check !== null && !check.ok) await keepOrTakeBack(context, integration, check, options.force)
  if (signal.aborted) {
    if (existing === null) await integrations.delete(integration.id, { force: true, by: context.by })
    throw new Interrupted()
  }
  if (existing === null && !connects && !integration.isActive)
    await integrations.update(integration.id, { isActive: true })
  if (!isOAuth) return outcome(integration, existing === null, check)
  const link = connects ? await makeConnectLink(integrations, integration, LINK_HOURS) : null
  if (link !== null) await note('oauth-link connect')
  return withLink(outcome(integration, existing === null, check), link, {
    provider,
    id: integration.id,
    isActive: integration.isActive,
  })
}

/** Makes it. A schema that asks for what only a person's consent brings can never be met: then its author is named, too. */
async function created(
  { integrations, warn }: CommandContext,
  provider: Provider,
  values: Parameters<Integrations['create']>[0],
): Promise<Integration> {
  try {
    return await integrations.create(values)
  } catch (error) {
    if (connectsByOAuth(provider) && isIntegrationsError(error, 'invalid_credentials') && 'issues' in error) {
      const paths = (error.issues as { path: string }[]).map(({ path }) => path)
      const tokens = TOKEN_KEYS.filter((key) => paths.includes(key) && !Object.hasOwn(values.credentials, key))
      if (tokens.length > 0)
        warn(
          `${tokens.join(', ')} can only come when a person has connected it: the provider's credentialsSchema has to make that optional.`,
        )
    }
    throw error
  }
}

/** As long as those of `oauth-link` without an option. */
const LINK_HOURS = 1

/** Whether somebody has to give access before anything can be asked of the provider. */
async function needsPerson(
  { oauth }: Integrations,
  existing: Integration | null,
  credentials: Values['credentials'],
): Promise<boolean> {
  if ('access_token' in credentials) return false
  if (existing === null) return true
  const { isConnected, reauth } = await oauth.status(existing.id)
  return !isConnected || reauth !== null
}

async function isNeeded({ oauth }: Integrations, { id }: Integration): Promise<boolean> {
  return (await oauth.status(id)).needsAuthorization
}

/** Without an address a new one that needs a link is removed again. @throws BaseUrlMissing */
async function takeBackWithoutLink({ integrations, by }: CommandContext, { id }: Integration): Promise<void> {
  try {
    linkBase(integrations)
  } catch (error) {
    await integrations.delete(id, { force: true, by })
    throw error
  }
}

/** Adds the link, and what comes after it. */
function withLink(
  { document, text }: Outcome,
  link: ConnectLink | null,
  { provider, id, isActive }: { provider: Provider; id: number; isActive: boolean },
): Outcome {
  const withUrl = {
    ...(document as object),
    connect_url: link?.url ?? null,
    expires_at: link?.expiresAt.toISOString() ?? null,
  }
  if (link === null) return { document: withUrl, text }
  const after = [
    ...(provider.hasHealthCheck ? [[`integrations test ${id}`, 'asks the provider whether the access works']] : []),
    ...(isActive ? [] : [[`integrations enable ${id}`, 'switches it on; until then nothing is synced']]),
    [`integrations oauth-link ${id}`, 'prints a new link, if this one is over'],
  ]
  const width = Math.max(...after.map(([command = '']) => command.length))
  return {
    document: withUrl,
    text: `${text} It is not connected yet.\n\n${linkText(link, provider.label)}\nOnce the page says that it is connected:\n${after.map(([command = '', effect]) => `  ${command.padEnd(width)}  ${effect}`).join('\n')}`,
  }
}

function findProvider(integrations: Integrations, key: string): Provider {
  const providers = integrations.admin.providers()
  const found = providers.find((provider) => provider.key === key)
  if (found !== undefined) return found
  const known = providers.length === 0 ? 'none' : providers.map((provider) => provider.key).join(', ')
  throw new Refused('usage', `No provider is registered as "${key}". Registered: ${known}.`)
}

async function givenValues({ terminal, warn }: CommandContext, provider: Provider, options: Options): Promise<Values> {
  const read = valueReader({
    ...terminal.sources,
    onLiteral: (option, name) => {
      if (option === '--credential')
        warn(
          `The credential "${name}" stands on the command line, where other users and the shell's history see it. ` +
            `Better: ${name}=env:NAME, ${name}=@file, or ${name}=- for stdin.`,
        )
    },
  })
  return {
    credentials: await read('--credential', options.credential, fieldsOf(provider.credentialsSchema)),
    metadata: await read('--metadata', options.metadata, fieldsOf(provider.metadataSchema)),
  }
}

/** The one to update; null when there is none yet. */
async function findExisting(
  integrations: Integrations,
  { key }: Provider,
  name: string,
  { integration: id, force }: Options,
): Promise<Integration | null> {
  if (id !== undefined) {
    if (!force) throw new Refused('usage', '--integration names the one to update, which needs --force.')
    const named = await integrations.get(id)
    if (named.provider === key) return named
    throw new Refused('usage', `Integration ${id} is of the provider "${named.provider}", not of "${key}".`)
  }
  const found: Integration[] = []
  for await (const integration of integrations.list({ provider: key }))
    if (integration.name === name) found.push(integration)
  if (found.length > 1 && force)
    throw new Refused(
      'usage',
      `Integrations ${found.map((integration) => integration.id).join(', ')} all have this name: --integration <id> names the one to update.`,
    )
  return found[0] ?? null
}

function alreadyInstalled({ id, name, provider }: Integration): Refused {
  return new Refused(
    'already_installed',
    `"${name}" of the provider "${provider}" is there already, as integration ${id}. --force updates it; --name gives another one its own name.`,
  )
}

/** The check's result; at Ctrl-C what was just made is taken back. */
async function checked(context: CommandContext, { id }: Integration, isNew: boolean): Promise<Check> {
  const { integrations, signal, progress } = context
  progress('Asking the provider ...')
  let abort = (): void => {}
  const aborted = new Promise<'aborted'>((resolve) => {
    abort = () => resolve('aborted')
  })
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  const result = await Promise.race([integrations.admin.check(id), aborted])
  signal.removeEventListener('abort', abort)
  if (result !== 'aborted') return result
  if (isNew) await integrations.delete(id, { force: true, by: context.by })
  throw new Interrupted()
}

/** A new one is removed unless it is wanted all the same; one that was there stays, with `--force` it was asked for. */
async function keepOrTakeBack(
  { integrations, terminal, warn, by }: CommandContext,
  { id }: Integration,
  { error }: NonNullable<Check>,
  force: boolean,
): Promise<void> {
  const failed = `The health check failed: ${error}`
  if (force || (terminal.isInteractive && (await terminal.prompts.confirm(`${plain(failed)} Keep it all the same?`)))) {
    warn(`${failed} Integration ${id} is kept.`)
    return
  }
  try {
    await integrations.delete(id, { force: true, by })
  } catch (cause) {
    throw new Refused(
      'health_check_failed',
      `${failed} Integration ${id} could not be removed and stays, switched off (${(cause as Error).message}). Then: integrations delete ${id}`,
    )
  }
  throw new Refused('health_check_failed', `${failed} Nothing was stored. --force keeps it all the same.`)
}

function outcome({ id, name, provider }: Integration, isNew: boolean, check: Check): Outcome {
  const result = check === null ? null : { ok: check.ok, duration_ms: check.durationMs, error: check.error }
  const verdict = result === null ? '' : result.ok ? ' The provider takes the credentials.' : ''
  return {
    document: { id, name, provider, created: isNew, check: result },
    text: `${isNew ? 'Installed' : 'Updated'} integration ${id} ("${name}", ${provider}).${verdict}`,
  }
}
