"""What the pages share and needs Streamlit: the state behind the link, the sidebar, figures with their words, resources."""
