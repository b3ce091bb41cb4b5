import { mount } from 'svelte';
import './styles/app.css';
import { open } from './lib/api/client.svelte';
import type { Transport } from './lib/api/transport/transport';
import App from './App.svelte';

async function transport(): Promise<Transport> {
  // The fake backend is in no build that ships: only in `npm run dev` and in `vite build --mode fake`.
  if (import.meta.env.DEV || import.meta.env.MODE === 'fake') {
    const query = new URLSearchParams(location.search);
    if (query.has('fake') || import.meta.env.DEV)
      return (await import('./lib/api/transport/fake')).fakeTransport(query);
  }
  if ('__TAURI_INTERNALS__' in window) return (await import('./lib/api/transport/tauri')).tauriTransport();
  return (await import('./lib/api/transport/ws')).wsTransport();
}

void transport().then((made) => {
  open(made);
  const target = document.getElementById('app');
  if (target) mount(App, { target });
});
