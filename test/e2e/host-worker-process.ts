/** A worker of a host's own that listens for no signal. */
import { createWorkers } from '../../src/create-workers.ts'
import integrations from './early-sigterm-process.ts'

await integrations.ready()
const workers = await createWorkers(integrations)
setTimeout(() => console.log('"host.running"'), 1_000)
await workers.run()
await integrations.close()
console.log('"host.ended"')
