import { Command, InvalidArgumentError } from 'commander'
import type { LoadIntegrations } from '../program.ts'

/** `integrations sync --integration N`: starts a run now, due or not. */
export function syncCommand(load: LoadIntegrations): Command {
  return new Command('sync')
    .alias('integrations:sync')
    .description('Starts a sync run of one integration now, due or not.')
    .requiredOption('--integration <id>', 'id of the integration', integrationId)
    .action(async ({ integration: id }: { integration: number }) => {
      const integrations = await load()
      await integrations.ready()
      await integrations.get(id)
      const outcome = await integrations.syncs.start(id)
      console.log(outcome === 'started' ? 'Started 1' : 'Already running')
      await integrations.close()
    })
}

function integrationId(text: string): number {
  const id = Number(text)
  if (!/^[1-9]\d{0,15}$/.test(text) || !Number.isSafeInteger(id))
    throw new InvalidArgumentError(`an id is a positive whole number, "${text}" was given`)
  return id
}
