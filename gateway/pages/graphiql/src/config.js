const CONFIG_URL = `${import.meta.env.BASE_URL}config.json`;

// FNV-1a. Web Crypto is not available on plain HTTP, and this hash only has to
// distinguish configurations.
function hash(text) {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) {
    value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  }
  return (value >>> 0).toString(16).padStart(8, '0');
}

export async function loadConfig() {
  let response;
  try {
    response = await fetch(CONFIG_URL, { cache: 'no-store' });
  } catch {
    throw new Error(`Cannot load ${CONFIG_URL}. The server did not respond.`);
  }
  if (!response.ok) {
    throw new Error(`Cannot load ${CONFIG_URL}. The server returned status ${response.status}.`);
  }
  const text = await response.text();
  let config;
  try {
    config = JSON.parse(text);
  } catch {
    throw new Error(`${CONFIG_URL} is not valid JSON.`);
  }
  if (typeof config?.endpoint !== 'string') {
    throw new Error(`${CONFIG_URL} names no endpoint.`);
  }
  const headers = Object.keys(config.headers ?? {}).length
    ? JSON.stringify(config.headers, null, 2)
    : undefined;
  const tabs = (config.tabs ?? []).map(({ title, query, variables }) => ({
    title,
    query,
    variables: variables ?? null,
    headers: headers ?? null,
  }));
  return { id: hash(text), endpoint: config.endpoint, headers, tabs };
}
